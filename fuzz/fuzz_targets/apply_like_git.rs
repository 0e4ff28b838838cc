//! A diff is never admitted with another tree than git's.
#![no_main]

use std::cell::RefCell;

use bakeoff::oracle::{Oracle, Verdict};
use bakeoff::{mutate, scratch};
use libfuzzer_sys::{Corpus, fuzz_mutator, fuzz_target, fuzzer_mutate};

thread_local! {
    static ORACLE: RefCell<Oracle> = RefCell::new(Oracle::new(&scratch()));
}

fuzz_target!(|diff: &[u8]| -> Corpus {
    match ORACLE.with_borrow_mut(|oracle| oracle.judge(diff)) {
        Verdict::Different(how) => panic!("{how}\n{}", String::from_utf8_lossy(diff)),
        _ => Corpus::Keep,
    }
});

fuzz_mutator!(|data: &mut [u8], size: usize, max_size: usize, seed: u32| {
    if seed % 8 == 0 {
        return fuzzer_mutate(data, size, max_size);
    }
    let changed = mutate::mutate(&data[..size], seed);
    let length = changed.len().min(max_size);
    data[..length].copy_from_slice(&changed[..length]);
    length
});
