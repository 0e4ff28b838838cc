//! Names of the definitions that enclose a place, read from the base's indentation.
//!
//! An approximation without a parser: going up, every line with less indentation than the place that
//! looks like the head of a definition gives its name. Where nothing looks like one, there is none.

/// Words behind which a definition's name stands.
const DEFINERS: [&str; 18] = [
    "fn",
    "def",
    "class",
    "struct",
    "enum",
    "union",
    "trait",
    "impl",
    "mod",
    "module",
    "func",
    "function",
    "interface",
    "namespace",
    "object",
    "protocol",
    "extension",
    "macro_rules",
];

/// Words that open a block that is no definition.
const CONTROL: [&str; 14] = [
    "if", "else", "for", "foreach", "while", "switch", "match", "loop", "try", "catch", "with",
    "return", "do", "unless",
];

/// How far up is looked, in lines.
const FARTHEST: usize = 2_000;

/// The names around a line of some depth that stands (or would be put) at index `at` of `base`, outermost first,
/// joined by `/`; empty at the top level.
pub fn enclosing(base: &[String], at: usize, indent_of_line: usize) -> String {
    let mut names: Vec<String> = Vec::new();
    let mut depth = indent_of_line;
    for above in base[..at.min(base.len())].iter().rev().take(FARTHEST) {
        if depth == 0 {
            break;
        }
        let trimmed = above.trim();
        if trimmed.is_empty() || indent(above) >= depth {
            continue;
        }
        if goes_on(trimmed) {
            continue;
        }
        depth = indent(above);
        names.extend(name_of(trimmed));
    }
    names.reverse();
    names.join("/")
}

/// Columns of white space before a line's first character; a tab counts as four.
pub fn indent(line: &str) -> usize {
    let blanks = line.chars().take_while(|c| c.is_whitespace());
    blanks.map(|c| if c == '\t' { 4 } else { 1 }).sum()
}

/// Whether a line belongs to a head that began further up at the same depth, or to what follows it: the
/// end of a long list of parameters, a `where` clause, a brace of its own, an attribute, `} else {`. A line
/// that ends a block is none: what it ends encloses nothing below it, so that its depth counts.
fn goes_on(line: &str) -> bool {
    let ends = line.ends_with([';', ',']);
    line.starts_with(['#', '@'])
        || matches!(line, "where" | "{" | "(" | ")")
        || (line.starts_with([')', ']']) && !ends)
        || (line.starts_with('}') && line.ends_with('{'))
}

fn name_of(head: &str) -> Option<String> {
    let words: Vec<&str> =
        head.split(|c: char| !c.is_alphanumeric() && c != '_').filter(|w| !w.is_empty()).collect();
    let first = words.first()?;
    if CONTROL.contains(first) {
        return None;
    }
    if let Some(at) = words.iter().position(|word| DEFINERS.contains(word)) {
        let rest = match words[at] {
            // The whole head tells one `impl` from another; Go's receiver stands before the name.
            "impl" | "func" => head[head.find(words[at])?..].trim_end_matches(['{', ' ']),
            _ => words.get(at + 1)?,
        };
        return Some(rest.split_whitespace().collect());
    }
    let call = head.ends_with('{').then(|| head.split_once('(')).flatten()?.0;
    let name = call.rsplit(|c: char| !c.is_alphanumeric() && c != '_').next()?;
    (!name.is_empty() && !CONTROL.contains(&name)).then(|| name.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(base: &str, line: &str) -> String {
        let base: Vec<String> = base.lines().map(str::to_owned).collect();
        enclosing(&base, base.len(), indent(line))
    }

    #[test]
    fn names_come_from_the_heads_above() {
        let rust = "mod a {\n    impl Display for X {\n        fn old() {}\n\n        fn fmt(&self) {\n            if x {";
        assert_eq!(names(rust, "                y"), "a/implDisplayforX/fmt");
        assert_eq!(
            names("class A:\n    def f(self):\n        pass\n    def g(self):", "        x"),
            "A/g"
        );
        assert_eq!(
            names("func (s *T) Name(a int) error {", "\treturn"),
            "func(s*T)Name(aint)error"
        );
        assert_eq!(names("static int parse(char *s) {\n    while (1) {", "        x"), "parse");
        assert_eq!(names("fn a() {\n}", "x"), "");
        let long =
            "impl A {\n    fn a(\n        x: u8,\n    ) -> u8\n    where\n        T: B,\n    {";
        assert_eq!(names(long, "        2"), "implA/a");
        let two = "impl A {\n    fn a() {\n        1\n    }\n";
        assert_eq!(names(two, "        2"), "implA", "what is closed encloses nothing");
        assert_eq!(names("let x = [", "    1,"), "");
    }
}
