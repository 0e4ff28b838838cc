//! What is printed of a parsed diff is read back as the same, and means the same on the base.
#![no_main]

use std::cell::RefCell;

use bakeoff::model::Admission;
use bakeoff::patch::{Rules, parse, print};
use bakeoff::oracle::Oracle;
use bakeoff::{mutate, scratch};
use libfuzzer_sys::{fuzz_mutator, fuzz_target, fuzzer_mutate};

thread_local! {
    static ORACLE: RefCell<Oracle> = RefCell::new(Oracle::new(&scratch()));
}

/// Repairs that are made against the base, so that a printed diff has not got them.
const BY_BASE: [&str; 2] = ["crlf-transport", "no-prefix"];

fn tree(admission: &Admission) -> Option<&str> {
    match admission {
        Admission::Admitted { tree, repairs, .. } => {
            let by_base = repairs.iter().any(|repair| BY_BASE.contains(&repair.code.as_str()));
            (!by_base).then(|| tree.as_str())
        }
        Admission::Refused(_) => None,
    }
}

fuzz_target!(|diff: &[u8]| {
    let rules = Rules::default();
    let Ok(patch) = parse(diff, &rules) else { return };
    let Some(printed) = print(&patch) else { return };
    let Ok(again) = parse(&printed, &rules) else {
        panic!("printed, but not read back:\n{}", String::from_utf8_lossy(&printed));
    };
    assert_eq!(print(&again).as_deref(), Some(&printed[..]), "printing is not stable");
    ORACLE.with_borrow(|oracle| {
        let (first, second) = (oracle.admit(diff), oracle.admit(&printed));
        if let (Some(first), Some(second)) = (tree(&first), tree(&second)) {
            assert_eq!(first, second, "printed as:\n{}", String::from_utf8_lossy(&printed));
        }
        oracle.forget();
    });
});

fuzz_mutator!(|data: &mut [u8], size: usize, max_size: usize, seed: u32| {
    if seed % 4 == 0 {
        return fuzzer_mutate(data, size, max_size);
    }
    let changed = mutate::mutate(&data[..size], seed);
    let length = changed.len().min(max_size);
    data[..length].copy_from_slice(&changed[..length]);
    length
});
