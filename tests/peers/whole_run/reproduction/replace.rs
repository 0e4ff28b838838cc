use std::rc::Rc;

use tokio::sync::OnceCell;

#[test]
fn gives_the_old_value_and_keeps_the_new_one() {
    let mut cell = OnceCell::from(1);
    assert_eq!(cell.replace(2), Some(1));
    assert_eq!(cell.get(), Some(&2));
    assert!(cell.set(3).is_err());
}

#[test]
fn fills_an_empty_cell() {
    let mut cell = OnceCell::new();
    assert_eq!(cell.replace(1), None);
    assert_eq!(cell.get(), Some(&1));
    assert!(cell.set(2).is_err());
}

#[test]
fn drops_nothing_twice() {
    let (old, new) = (Rc::new(()), Rc::new(()));
    let mut cell = OnceCell::from(old.clone());
    drop(cell.replace(new.clone()));
    assert_eq!((Rc::strong_count(&old), Rc::strong_count(&new)), (1, 2));
    drop(cell);
    assert_eq!(Rc::strong_count(&new), 1);
}
