//! Refusals of what would make a set-user-id or a set-group-id file.
//!
//! What a job writes stays on the host, where no flag of a job's mounts holds any more: there such a file
//! runs with its owner's power for whoever reaches it, root's where the engine is root's. The mode is an
//! argument of all of these calls but openat2, which is absent. Never here: file capabilities, which take a
//! capability that no job has; directories that `mkdir` makes, of whose mode the kernel drops these bits.

use seccompiler::SeccompCmpOp::MaskedEq;
use seccompiler::SeccompRule;

use super::{Rules, rule};

/// `fchmodat2` (Linux 6.6); the same number everywhere, and not in every libc yet.
const FCHMODAT2: libc::c_long = 452;

/// The bits that give power. Set-group-id is refused where nobody of the group may execute the file, too: an
/// access list could add that later, and takes no mode. For a directory it is harmless, but a filter can't
/// tell one from a file.
const POWER: [libc::mode_t; 2] = [libc::S_ISUID, libc::S_ISGID];

/// Calls that set a mode, and which argument it is.
#[rustfmt::skip]
const SETTING: &[(libc::c_long, u8)] = &[
    (libc::SYS_fchmod, 1), (libc::SYS_fchmodat, 2), (FCHMODAT2, 2), (libc::SYS_mknodat, 2),
    #[cfg(target_arch = "x86_64")] (libc::SYS_chmod, 1),
    #[cfg(target_arch = "x86_64")] (libc::SYS_mknod, 1),
    #[cfg(target_arch = "x86_64")] (libc::SYS_creat, 1),
];

/// Calls that heed a mode only where their flags make a file, and which argument the flags are; the mode
/// is the next one.
#[rustfmt::skip]
const OPENING: &[(libc::c_long, u8)] = &[
    (libc::SYS_openat, 2),
    #[cfg(target_arch = "x86_64")] (libc::SYS_open, 1),
];

/// The flags that make a file; `O_TMPFILE` without the `O_DIRECTORY` that is a part of it.
const MAKING: [libc::c_int; 2] = [libc::O_CREAT, libc::O_TMPFILE & !libc::O_DIRECTORY];

/// The rules of all of these calls.
pub(super) fn rules() -> Result<Rules, String> {
    let mut rules = Rules::new();
    for &(call, mode) in SETTING {
        rules.insert(
            call,
            POWER.map(|bits| having(vec![(mode, bits)])).into_iter().collect::<Result<_, _>>()?,
        );
    }
    for &(call, flags) in OPENING {
        let of = |making: libc::c_int| {
            POWER.map(|bits| having(vec![(flags, making.cast_unsigned()), (flags + 1, bits)]))
        };
        rules.insert(call, MAKING.into_iter().flat_map(of).collect::<Result<_, _>>()?);
    }
    Ok(rules)
}

/// That all of these arguments have all of these bits.
fn having(bits: Vec<(u8, u32)>) -> Result<SeccompRule, String> {
    rule(
        bits.into_iter()
            .map(|(argument, bits)| (argument, MaskedEq(bits.into()), bits.into()))
            .collect(),
    )
}
