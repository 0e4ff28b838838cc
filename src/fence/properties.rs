//! Properties over random and adversarial text.

use proptest::prelude::*;

use super::cases::check;
use super::*;

/// Pieces that markers, delimiters, tokens and escapes are made of.
fn piece() -> impl Strategy<Value = String> {
    let fixed = prop::sample::select(vec![
        "<",
        "<<",
        "<<<",
        "≪",
        "⋘",
        "‹",
        "&lt;",
        "\\x3c",
        ">",
        ">>>",
        "END",
        "end",
        "ЕND",
        "ＥＮＤ",
        "E",
        "UNTRUSTED",
        "untrusted",
        "UNΤRUSTED",
        "UNTR",
        "USTED",
        "𝐔𝐍",
        "TRUSTED",
        " id=",
        "3f9c",
        " ",
        "\n",
        "\r\n",
        "\t",
        "\u{200b}",
        "\u{301}",
        "\u{ad}",
        "\u{2028}",
        "\u{feff}",
        "\0",
        "\u{8}",
        "MEMORY",
        "memory",
        "MEM",
        "ORY",
        "USER",
        "PRIOR",
        "RUNS",
        "rn",
        "</",
        "/",
        "+",
        "-",
        "#",
        "|",
        "<|",
        "|>",
        "im_start",
        "<U+003C>",
        "<U+",
        "003C>",
        "<U+D800>",
        "<U+110000>",
        "U",
        "+",
        "Human:",
        "System",
        ":",
        "[INST]",
        "###",
        " Instruction",
        "é",
        "漢",
        "🦀",
        "\u{e0041}",
        "ﬆ",
        "m",
    ])
    .prop_map(String::from);
    prop_oneof![8 => fixed, 1 => any::<char>().prop_map(String::from), 1 => ".{0,8}".prop_map(String::from)]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, ..ProptestConfig::default() })]

    // contract C20 C22
    #[test]
    fn no_text_gets_out(pieces in prop::collection::vec(piece(), 0..40)) {
        check(&pieces.concat());
    }

    #[test]
    fn edits_are_local(pieces in prop::collection::vec(piece(), 0..20)) {
        let text = pieces.concat();
        let neutral = neutralise(&text, &["END MEMORY".to_owned()]);
        let mut rebuilt = String::new();
        for (at, c) in text.char_indices() {
            match neutral.edits.binary_search(&at) {
                Ok(_) => rebuilt.push_str(&format!("<U+{:04X}>", c as u32)),
                Err(_) => rebuilt.push(c),
            }
        }
        prop_assert_eq!(rebuilt, neutral.text);
    }

    // contract C31
    #[test]
    fn cut_text_is_within_its_budget(
        pieces in prop::collection::vec(piece(), 0..60),
        max in 0_usize..200,
        ends in any::<bool>(),
    ) {
        let text = pieces.concat();
        let keep = if ends { Keep::Ends } else { Keep::Head };
        let parts = cut::cut(&text, &[], &FenceOptions::cut(max, keep));
        let tail = parts.tail.unwrap_or_default();
        prop_assert_eq!(parts.head.len() + tail.len() + parts.left_out, text.len());
        // A seam may add an escape of brackets that only now stand at an end.
        let brackets = |text: &str| 10 * stream::Stream::of(text, false).markers().len();
        let size = |text: &str| neutralise(text, &[]).text.len();
        prop_assert!(size(parts.head) <= max + brackets(parts.head));
        prop_assert!(size(parts.head) + size(tail) <= max + brackets(parts.head) + brackets(tail) + 10);
    }
}
