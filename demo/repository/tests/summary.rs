use summary::{mean, median, spread};

#[test]
fn nothing_has_no_summary() {
    assert_eq!((mean(&[]), median(&[]), spread(&[])), (None, None, None));
}

#[test]
fn median_of_an_odd_count_is_the_middle_value() {
    assert_eq!(median(&[9.0, 1.0, 4.0]), Some(4.0));
    assert_eq!(median(&[7.0]), Some(7.0));
}

#[test]
fn median_of_an_even_count_is_the_mean_of_the_middle_two() {
    assert_eq!(median(&[1.0, 2.0, 3.0, 10.0]), Some(2.5));
}

#[test]
fn mean_and_spread() {
    assert_eq!((mean(&[1.0, 2.0, 6.0]), spread(&[1.0, 2.0, 6.0])), (Some(3.0), Some(5.0)));
}
