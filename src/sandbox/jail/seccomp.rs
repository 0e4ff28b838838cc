//! Which system calls a job can't make. Never here: paths, which a filter can't see.
//!
//! A list of refusals, not of permissions: build tools use nearly everything else, and a call that
//! is new to the filter still meets namespaces and the lack of every capability. What gives a file the
//! power of its owner is in `modes`.

mod modes;

use std::collections::BTreeMap;

use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter,
    SeccompRule, apply_filter, sock_filter,
};

type Rules = BTreeMap<i64, Vec<SeccompRule>>;

/// `open_tree` with attributes (Linux 6.15); the same number everywhere, and not in libc yet.
const OPEN_TREE_ATTR: libc::c_long = 467;

/// Calls that answer `EPERM`, whatever their arguments.
#[rustfmt::skip]
const REFUSED: &[libc::c_long] = &[
    // Namespaces and mounts.
    libc::SYS_unshare, libc::SYS_setns, libc::SYS_mount, libc::SYS_umount2, libc::SYS_pivot_root,
    libc::SYS_chroot, libc::SYS_open_tree, libc::SYS_move_mount, libc::SYS_fsopen,
    libc::SYS_fsconfig, libc::SYS_fsmount, libc::SYS_fspick, libc::SYS_mount_setattr, OPEN_TREE_ATTR,
    // Other processes' memory.
    libc::SYS_ptrace, libc::SYS_process_vm_readv, libc::SYS_process_vm_writev,
    libc::SYS_process_madvise, libc::SYS_pidfd_getfd, libc::SYS_kcmp,
    // Kernel keyrings are not in any namespace.
    libc::SYS_keyctl, libc::SYS_add_key, libc::SYS_request_key,
    // Surface of the kernel that no build needs.
    libc::SYS_bpf, libc::SYS_userfaultfd, libc::SYS_perf_event_open, libc::SYS_kexec_load,
    libc::SYS_init_module, libc::SYS_finit_module, libc::SYS_delete_module, libc::SYS_reboot,
    libc::SYS_swapon, libc::SYS_swapoff, libc::SYS_acct, libc::SYS_quotactl, libc::SYS_syslog,
    libc::SYS_open_by_handle_at, libc::SYS_settimeofday, libc::SYS_clock_settime,
    libc::SYS_clock_adjtime, libc::SYS_adjtimex, libc::SYS_vhangup, libc::SYS_fanotify_init,
];

/// Ways to other processes that are not in any namespace of the weaker tier.
#[rustfmt::skip]
const UNCONNECTED: &[libc::c_long] = &[
    libc::SYS_shmget, libc::SYS_shmat, libc::SYS_shmctl, libc::SYS_semget, libc::SYS_semop,
    libc::SYS_semtimedop, libc::SYS_semctl, libc::SYS_msgget, libc::SYS_msgsnd, libc::SYS_msgrcv,
    libc::SYS_msgctl, libc::SYS_mq_open, libc::SYS_mq_unlink,
];

/// Calls that answer `ENOSYS`, so that libraries take their older way: clone3 hides its flags from a
/// filter, openat2 its mode, and io_uring does what a filter refuses.
const ABSENT: &[libc::c_long] = &[
    libc::SYS_clone3,
    libc::SYS_openat2,
    libc::SYS_io_uring_setup,
    libc::SYS_io_uring_enter,
    libc::SYS_io_uring_register,
];

/// Flags of clone that make a namespace.
const NEW_NAMESPACE: [libc::c_int; 7] = [
    libc::CLONE_NEWUSER,
    libc::CLONE_NEWNS,
    libc::CLONE_NEWPID,
    libc::CLONE_NEWNET,
    libc::CLONE_NEWIPC,
    libc::CLONE_NEWUTS,
    libc::CLONE_NEWCGROUP,
];

/// Families of sockets that stay. All of them live in the job's own network namespace; others, such
/// as vsock, do not.
const FAMILIES: [libc::c_int; 4] = [libc::AF_UNIX, libc::AF_INET, libc::AF_INET6, libc::AF_NETLINK];

/// Which sockets a job may make.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) enum Sockets {
    /// Those of a network namespace of its own, or the operator's own setup command.
    Namespaced,
    /// None: without a network namespace every socket would be the host's, and without one for it
    /// every System V object and message queue, too. `socketpair` stays.
    None,
}

/// The filters of a job, compiled once.
#[derive(Clone, Debug)]
pub(in super::super) struct Filters(Vec<BpfProgram>);

impl Filters {
    /// Compiles them for this machine's architecture.
    ///
    /// # Errors
    /// In words, when the architecture is not supported.
    pub(in super::super) fn compile(sockets: Sockets) -> Result<Self, String> {
        let mut refused: Rules = REFUSED.iter().map(|&call| (call, vec![])).collect();
        refused.insert(libc::SYS_clone, clone_rules()?);
        if sockets == Sockets::None {
            refused.extend(UNCONNECTED.iter().map(|&call| (call, vec![])));
        }
        refused.insert(libc::SYS_ioctl, terminal_rules()?);
        refused.extend(modes::rules()?);
        let absent = ABSENT.iter().map(|&call| (call, vec![])).collect();
        let mut programs = vec![
            program(refused, libc::EPERM)?,
            program(absent, libc::ENOSYS)?,
            program(socket_rules(sockets)?, libc::EAFNOSUPPORT)?,
        ];
        if cfg!(target_arch = "x86_64") {
            programs.push(no_x32());
        }
        Ok(Self(programs))
    }

    /// Puts the calling process and all that it will start under the filters, for good.
    ///
    /// # Errors
    /// In words, when the kernel refuses.
    pub(super) fn apply(&self) -> Result<(), String> {
        self.0.iter().try_for_each(|program| {
            apply_filter(program).map_err(|error| format!("install a seccomp filter: {error}"))
        })
    }
}

fn program(rules: Rules, errno: libc::c_int) -> Result<BpfProgram, String> {
    let compile = || {
        let arch = std::env::consts::ARCH.try_into()?;
        let action = SeccompAction::Errno(errno.unsigned_abs());
        SeccompFilter::new(rules, SeccompAction::Allow, action, arch)?.try_into()
    };
    compile()
        .map_err(|error: seccompiler::BackendError| format!("compile a seccomp filter: {error}"))
}

fn rule(conditions: Vec<(u8, SeccompCmpOp, u64)>) -> Result<SeccompRule, String> {
    let condition = |(index, operator, value)| {
        SeccompCondition::new(index, SeccompCmpArgLen::Dword, operator, value)
    };
    let conditions: Result<Vec<_>, _> = conditions.into_iter().map(condition).collect();
    conditions
        .and_then(SeccompRule::new)
        .map_err(|error| format!("compile a seccomp filter: {error}"))
}

fn clone_rules() -> Result<Vec<SeccompRule>, String> {
    let refuse = |flag: libc::c_int| {
        let flag = u64::from(flag.cast_unsigned());
        rule(vec![(0, SeccompCmpOp::MaskedEq(flag), flag)])
    };
    NEW_NAMESPACE.into_iter().map(refuse).collect()
}

/// Pushing characters into a terminal's input is the classic way out of a shared one.
fn terminal_rules() -> Result<Vec<SeccompRule>, String> {
    const TIOCLINUX: u64 = 0x541c;
    let refuse = |request| rule(vec![(1, SeccompCmpOp::Eq, request)]);
    [libc::TIOCSTI, TIOCLINUX].into_iter().map(refuse).collect()
}

fn socket_rules(sockets: Sockets) -> Result<Rules, String> {
    let rules = match sockets {
        Sockets::None => vec![],
        Sockets::Namespaced => {
            let other = |family: libc::c_int| (0, SeccompCmpOp::Ne, family.unsigned_abs().into());
            vec![rule(FAMILIES.into_iter().map(other).collect())?]
        }
    };
    Ok([(libc::SYS_socket, rules)].into())
}

/// On x86-64 the same call has a second number for the x32 interface; all of those answer `ENOSYS`.
fn no_x32() -> BpfProgram {
    const X32_BIT: u32 = 0x4000_0000;
    let statement = |code: u32, k: u32| sock_filter { code: code as u16, jt: 0, jf: 0, k };
    let errno = libc::SECCOMP_RET_ERRNO | libc::ENOSYS.unsigned_abs();
    vec![
        // The number of the call is the first word of the data.
        statement(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0),
        sock_filter {
            code: (libc::BPF_JMP | libc::BPF_JGE | libc::BPF_K) as u16,
            jt: 0,
            jf: 1,
            k: X32_BIT,
        },
        statement(libc::BPF_RET | libc::BPF_K, errno),
        statement(libc::BPF_RET | libc::BPF_K, libc::SECCOMP_RET_ALLOW),
    ]
}
