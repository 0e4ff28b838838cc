//! Which files of JavaScript and TypeScript are found before others: `./calc` can be a file of that very
//! name, or any of several extensions, and runners try them in an order.
//!
//! By name alone. Never here: whether a file is there.

/// Orders in which extensions are tried: Vite's and Vitest's, and Jest's.
const ORDERS: [&[&str]; 2] = [
    &["mjs", "js", "mts", "ts", "jsx", "tsx"],
    &["js", "mjs", "cjs", "jsx", "ts", "mts", "cts", "tsx"],
];

/// The paths that a new file of this name would be taken for.
pub fn outranked(path: &str) -> Vec<String> {
    let (dir, name) = path.rsplit_once('/').unwrap_or(("", path));
    let Some((stem, end)) = name.rsplit_once('.') else {
        // A program may have its source beside it.
        let is_program = dir.rsplit('/').next() == Some("bin");
        return if is_program { Vec::new() } else { all(path, ORDERS.iter().copied().flatten()) };
    };
    // `math.d.ts` is a declaration, and `math.test.ts` a test.
    if stem.contains('.') {
        return Vec::new();
    }
    let stem = &path[..path.len() - end.len() - 1];
    let later = ORDERS.iter().filter_map(|order| {
        let at = order.iter().position(|known| *known == end)?;
        Some(&order[at + 1..])
    });
    all(stem, later.flatten())
}

fn all<'e>(stem: &str, ends: impl Iterator<Item = &'e &'e str>) -> Vec<String> {
    let mut paths: Vec<String> = ends.map(|end| format!("{stem}.{end}")).collect();
    paths.sort();
    paths.dedup();
    paths
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_found_first_outranks() {
        for (new, old) in [
            ("src/calc.mjs", "src/calc.ts"),
            ("src/calc.mts", "src/calc.ts"),
            ("calc.js", "calc.mjs"),
            ("calc.jsx", "calc.ts"),
            ("src/calc", "src/calc.js"),
        ] {
            assert!(outranked(new).contains(&old.to_owned()), "{new} {old}");
        }
        for (new, old) in [
            ("src/calc.tsx", "src/calc.ts"),
            ("src/calc.json", "src/calc.ts"),
            ("src/calc.d.ts", "src/calc.tsx"),
            ("calc.test.js", "calc.test.ts"),
            ("bin/calc", "bin/calc.js"),
            ("src/calc.py", "src/calc.ts"),
        ] {
            assert!(!outranked(new).contains(&old.to_owned()), "{new} {old}");
        }
    }
}
