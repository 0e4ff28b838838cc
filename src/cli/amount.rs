//! Ages and sizes as people write them: `30d`, `12h`, `20G`, `500M`.

use std::time::Duration;

/// An age: a whole number of minutes, hours, days or weeks.
pub fn age(text: &str) -> Result<Duration, String> {
    let wanted = || "an age, such as 12h, 30d or 2w".to_owned();
    let (number, unit) = split(text);
    let seconds = match unit {
        "m" | "min" => 60,
        "h" => 3600,
        "" | "d" => 24 * 3600,
        "w" => 7 * 24 * 3600,
        _ => return Err(wanted()),
    };
    let number: u64 = number.parse().map_err(|_| wanted())?;
    number.checked_mul(seconds).map(Duration::from_secs).ok_or_else(wanted)
}

/// A size in bytes: a number with K, M, G or T, each 1024 times the one before.
pub fn size(text: &str) -> Result<u64, String> {
    let wanted = || "a size, such as 500M or 20G".to_owned();
    let (number, unit) = split(text);
    let unit = unit.trim_end_matches("iB").trim_end_matches('B').to_uppercase();
    let power = match unit.as_str() {
        "" => 0,
        "K" => 10,
        "M" => 20,
        "G" => 30,
        "T" => 40,
        _ => return Err(wanted()),
    };
    let number: u64 = number.parse().map_err(|_| wanted())?;
    number.checked_mul(1 << power).ok_or_else(wanted)
}

fn split(text: &str) -> (&str, &str) {
    let text = text.trim();
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    (&text[..end], text[end..].trim())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ages_and_sizes_are_read() {
        assert_eq!(age("30d"), Ok(Duration::from_secs(30 * 86_400)));
        assert_eq!(age("2w"), age("14"));
        assert_eq!(age("90m"), Ok(Duration::from_secs(5400)));
        assert_eq!((size("20G"), size("512 MiB"), size("0")), (Ok(20 << 30), Ok(512 << 20), Ok(0)));
        for bad in ["", "d", "x", "3y", "-1d", "99999999999999999999d"] {
            assert!(age(bad).is_err(), "{bad}");
        }
        assert!(size("1.5G").is_err() && size("99999999999T").is_err());
    }
}
