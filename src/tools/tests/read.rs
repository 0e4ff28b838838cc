//! Reading and listing.

use serde_json::json;

use crate::tools::testing::Fixture;

// contract C30
#[test]
fn a_whole_file_comes_byte_for_byte() {
    let fixture = Fixture::new();
    for body in [
        "a\n",
        "no newline",
        "crlf\r\nlines\r\n",
        "\u{feff}bom\n",
        "tab\tand \u{0} nul\n",
        "[a: lines 1 to 2]\n",
        "\n\n",
    ] {
        fixture.put("f", body);
        assert_eq!(fixture.done("read_file", json!({"path": "f"})), body);
    }
    fixture.put("f", "");
    assert_eq!(fixture.done("read_file", json!({"path": "f"})), "[f is empty]");
}

#[test]
fn a_range_comes_with_one_notice_line_and_exact_bytes() {
    let fixture = Fixture::new();
    fixture.put("f", "one\ntwo\r\nthree\nfour");
    let read = |start: u64, end: u64| {
        fixture.done("read_file", json!({"path": "f", "start_line": start, "end_line": end}))
    };
    assert_eq!(read(2, 3), "[f: lines 2 to 3 of 4]\ntwo\r\nthree\n");
    assert_eq!(read(4, 99), "[f: lines 4 to 4 of 4]\nfour");
    assert_eq!(read(1, 4), "one\ntwo\r\nthree\nfour");
    for (start, end) in [(0, 2), (5, 6), (3, 2), (u64::MAX, u64::MAX)] {
        let told = fixture
            .refused("read_file", json!({"path": "f", "start_line": start, "end_line": end}));
        assert!(told.contains("4 lines"), "{told}");
    }
}

#[test]
fn a_long_file_is_cut_with_head_and_tail_and_notices_outside_the_text() {
    let fixture = Fixture::new();
    let body: String = (1..=300_000).map(|n| format!("line {n}\n")).collect();
    fixture.put("big.txt", &body);
    let text = fixture.done("read_file", json!({"path": "big.txt"}));
    assert!(text.len() < 66 * 1024, "{}", text.len());
    let (notice, rest) = text.split_once('\n').unwrap();
    assert!(notice.starts_with("[big.txt: lines 1 to ") && notice.contains("left out"), "{notice}");
    let (head, tail) = rest.split_once("[big.txt: lines ").unwrap();
    assert!(body.starts_with(head) && body.ends_with(tail.split_once('\n').unwrap().1));
    let last: u64 = notice.split_whitespace().nth(4).unwrap().parse().unwrap();
    assert!(head.ends_with(&format!("line {last}\n")), "the notice tells the truth");
    let first: u64 = tail.split_whitespace().next().unwrap().parse().unwrap();
    assert!(tail.split_once('\n').unwrap().1.starts_with(&format!("line {first}\n")));
}

#[test]
fn one_endless_line_is_cut_on_a_character() {
    let fixture = Fixture::new();
    fixture.put("long", "é".repeat(100_000));
    let text = fixture.done("read_file", json!({"path": "long"}));
    assert!(text.len() < 66 * 1024 && text.ends_with('é'));
}

#[test]
fn what_is_no_text_is_told() {
    let fixture = Fixture::new();
    fixture.put("latin", b"caf\xe9\n");
    fixture.put("bin", b"\xff\x00\x01");
    assert!(fixture.refused("read_file", json!({"path": "latin"})).contains("not UTF-8"));
    assert!(fixture.refused("read_file", json!({"path": "bin"})).contains("binary"));
    fixture.refused("edit_file", json!({"path": "latin", "old_string": "caf", "new_string": "x"}));
    fixture.put("huge", "");
    let file = std::fs::File::options().write(true).open(fixture.top().join("huge")).unwrap();
    file.set_len(17 << 20).unwrap();
    assert!(fixture.refused("read_file", json!({"path": "huge"})).contains("more than"));
    fixture.refused("read_file", json!({"path": "nowhere"}));
    fixture.refused("read_file", json!({"path": ".git"}));
    fixture.put("d/x", "");
    assert!(fixture.refused("read_file", json!({"path": "d"})).contains("list_dir"));
    fixture.put(".env", "K=hidden");
    assert!(!fixture.refused("read_file", json!({"path": ".env"})).contains("hidden"));
    fixture.link(".env", "innocent");
    assert!(!fixture.refused("read_file", json!({"path": "innocent"})).contains("hidden"));
    assert!(
        !fixture
            .refused("edit_file", json!({"path": ".env", "old_string": "K=", "new_string": ""}))
            .contains("hidden")
    );
}

#[test]
fn a_directory_is_listed_without_git_and_within_its_cap() {
    let fixture = Fixture::new();
    fixture.put("src/lib.rs", "abc");
    fixture.put(".gitignore", "x");
    fixture.link("src", "alias");
    assert_eq!(fixture.done("list_dir", json!({})), ".gitignore  1\nalias -> src\nsrc/");
    assert_eq!(fixture.done("list_dir", json!({"path": "src"})), "lib.rs  3");
    std::fs::create_dir(fixture.top().join("empty")).unwrap();
    assert_eq!(fixture.done("list_dir", json!({"path": "empty"})), "[empty is empty]");
    for index in 0..1200 {
        fixture.put(&format!("many/{index}"), "");
    }
    let text = fixture.done("list_dir", json!({"path": "many"}));
    assert_eq!(text.lines().count(), 1001);
    fixture.refused("list_dir", json!({"path": "src/lib.rs"}));
}

/// A range of a file that is too large to be held comes all the same, from anywhere in it.
#[test]
fn a_range_of_a_huge_file_is_streamed() {
    let fixture = Fixture::new();
    let line = format!("{}\n", "x".repeat(99));
    let mut text = line.repeat(200_000);
    text.push_str("é needle\n");
    text.push_str(&line.repeat(10));
    text.push_str(&"y".repeat(100_000));
    fixture.put("huge.txt", &text);
    let read = |first: u64, last: u64| {
        fixture
            .done("read_file", json!({"path": "huge.txt", "start_line": first, "end_line": last}))
    };
    assert_eq!(
        read(200_001, 200_001),
        "[huge.txt: lines 200001 to 200001 of a large file]\né needle\n"
    );
    assert_eq!(read(3, 4), format!("[huge.txt: lines 3 to 4 of a large file]\n{line}{line}"));
    let cut = read(1, 200_000);
    assert!(
        cut.starts_with("[huge.txt: lines 1 to 656 of a large file; the rest"),
        "{}",
        &cut[..99]
    );
    assert!(read(200_012, 200_012).contains("the rest is left out in line 200012"));
    let past = json!({"path": "huge.txt", "start_line": 200_013});
    assert!(fixture.refused("read_file", past).contains("has 200012 lines"));
    let whole = fixture.refused("read_file", json!({"path": "huge.txt"}));
    assert!(whole.contains("start_line"), "{whole}");
}
