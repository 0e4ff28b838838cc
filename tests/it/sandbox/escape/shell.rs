//! Attempts as shell scripts, which print `ESCAPED` when they succeed.

use super::Control::{self, Anyone, Never, Root};

/// `$SECRET` is a file with `top-secret`, `$OUTSIDE` a directory that the engine's user may write,
/// `$ENGINE` the engine's process, whose environment holds `HOST_SECRET`; `$SHARED` is a directory
/// that the job may write, and `$FIXED` one that it may only read.
pub const ATTEMPTS: &[(&str, Control, &str)] = &[
    // Reading.
    ("read a planted secret", Anyone, "grep -q top-secret \"$SECRET\" && echo ESCAPED"),
    ("by the init's root", Never, "grep -q top-secret /proc/1/root\"$SECRET\" && echo ESCAPED"),
    (
        "by the engine's root",
        Anyone,
        "grep -q top-secret /proc/$ENGINE/root\"$SECRET\" && echo ESCAPED",
    ),
    ("by the engine's directory", Anyone, "ls /proc/$ENGINE/cwd/ >/dev/null && echo ESCAPED"),
    (
        "by a link in a shared directory",
        Anyone,
        "ln -s \"$SECRET\" \"$SHARED/l$$\"; grep -q top-secret \"$SHARED/l$$\" && echo ESCAPED",
    ),
    (
        "by many dots",
        Anyone,
        "grep -q top-secret ../../../../../../../../../..\"$SECRET\" && echo ESCAPED",
    ),
    (
        "by dots out of a shared directory",
        Anyone,
        "grep -q top-secret \"$SHARED/../../../../..$SECRET\" && echo ESCAPED",
    ),
    (
        "by a hard link",
        Anyone,
        "ln \"$SECRET\" \"$SHARED/h$$\" 2>/dev/null && grep -q top-secret \"$SHARED/h$$\" && echo ESCAPED",
    ),
    ("list the planted directory", Anyone, "ls \"$OUTSIDE\" >/dev/null && echo ESCAPED"),
    ("read the password hashes", Root, "cat /etc/shadow >/dev/null && echo ESCAPED"),
    ("read the hashes' backup", Never, "cat /etc/shadow- >/dev/null && echo ESCAPED"),
    ("list the private keys", Root, "ls /etc/ssl/private >/dev/null && echo ESCAPED"),
    ("list root's home", Root, "ls -A /root | grep -q . && echo ESCAPED"),
    ("list homes", Never, "ls -A /home | grep -v bakeoff-job | grep -q . && echo ESCAPED"),
    (
        "read the disk",
        Never,
        "for disk in /dev/vda /dev/sda /dev/nvme0n1 /dev/dm-0; do head -c 1 $disk >/dev/null 2>&1 && echo ESCAPED; done",
    ),
    ("read the kernel's log", Never, "head -c 1 /dev/kmsg >/dev/null && echo ESCAPED"),
    (
        "read the memory",
        Never,
        "head -c 1 /dev/mem >/dev/null && echo ESCAPED; head -c 1 /proc/kcore | grep -q . && echo ESCAPED",
    ),
    ("read the system's tree", Never, "ls -A /sys | grep -q . && echo ESCAPED"),
    (
        "read the engine's environment",
        Anyone,
        "tr '\\0' '\\n' < /proc/$ENGINE/environ | grep -q HOST_SECRET && echo ESCAPED",
    ),
    (
        "read anybody's environment",
        Anyone,
        "cat /proc/[0-9]*/environ 2>/dev/null | grep -qa HOST_SECRET && echo ESCAPED",
    ),
    (
        "read the warden's secret",
        Never,
        "cat /proc/[0-9]*/environ 2>/dev/null | grep -qa BAKEOFF_CANARY && echo ESCAPED",
    ),
    ("read the init's environment", Never, "cat /proc/1/environ >/dev/null && echo ESCAPED"),
    ("read the init's memory map", Never, "cat /proc/1/maps >/dev/null && echo ESCAPED"),
    (
        "use the init's descriptors",
        Never,
        "for fd in 0 1 2 3 4 5 6; do (readlink /proc/1/fd/$fd || exec 9<>/proc/1/fd/$fd) 2>/dev/null && echo ESCAPED; done",
    ),
    (
        "find an open descriptor",
        Never,
        "for fd in /proc/$$/fd/*; do case ${fd##*/} in 0|1|2|10|255) ;; *) test -e $fd && echo ESCAPED;; esac; done",
    ),
    ("find the engine's process", Anyone, "kill -0 $ENGINE && echo ESCAPED"),
    // Writing.
    ("write outside", Anyone, "echo x > \"$OUTSIDE/made\" && echo ESCAPED"),
    (
        "write by a link in a shared directory",
        Anyone,
        "ln -s \"$OUTSIDE\" \"$SHARED/d$$\"; echo x > \"$SHARED/d$$/made\" && echo ESCAPED",
    ),
    ("write a read-only directory", Anyone, "echo x > \"$FIXED/made\" && echo ESCAPED"),
    ("change a read-only file", Anyone, "chmod 777 \"$FIXED/file\" && echo ESCAPED"),
    ("remove a read-only file", Never, "rm -f \"$FIXED/file\" && echo ESCAPED"),
    (
        "write to the programs",
        Root,
        "touch /usr/bin/.bakeoff-test && rm /usr/bin/.bakeoff-test && echo ESCAPED",
    ),
    (
        "write to the libraries",
        Root,
        "touch /usr/lib/.bakeoff-test && rm /usr/lib/.bakeoff-test && echo ESCAPED",
    ),
    (
        "write to the system's configuration",
        Root,
        "touch /etc/.bakeoff-test && rm /etc/.bakeoff-test && echo ESCAPED",
    ),
    ("change the users", Never, "echo x:x:0:0::/:/bin/sh >> /etc/passwd && echo ESCAPED"),
    ("write at the root", Root, "touch /.bakeoff-test && rm /.bakeoff-test && echo ESCAPED"),
    ("make the root writable", Never, "mount -o remount,rw / 2>/dev/null && echo ESCAPED"),
    ("write a kernel setting", Never, "echo 1 > /proc/sys/kernel/panic && echo ESCAPED"),
    (
        "set the core handler",
        Never,
        "echo '|/bin/sh' > /proc/sys/kernel/core_pattern && echo ESCAPED",
    ),
    ("press the magic key", Never, "echo h > /proc/sysrq-trigger && echo ESCAPED"),
    (
        "raise the limit of processes",
        Never,
        "echo 99999 > /proc/sys/kernel/pid_max && echo ESCAPED",
    ),
    // Gaining.
    ("mount", Never, "mount -t tmpfs none /tmp 2>/dev/null && echo ESCAPED"),
    ("bind", Never, "mount --bind /usr \"$SHARED\" 2>/dev/null && echo ESCAPED"),
    ("unmount", Never, "umount -l /proc 2>/dev/null && echo ESCAPED"),
    ("a user namespace", Anyone, "unshare -U true && echo ESCAPED"),
    ("a user namespace with root in it", Anyone, "unshare -Ur true && echo ESCAPED"),
    ("a mount namespace", Root, "unshare -m true && echo ESCAPED"),
    ("a network namespace", Root, "unshare -n true && echo ESCAPED"),
    ("a process namespace", Root, "unshare -pf true && echo ESCAPED"),
    ("the init's namespaces", Never, "nsenter -t 1 -a true && echo ESCAPED"),
    ("the engine's namespaces", Never, "nsenter -t $ENGINE -m true && echo ESCAPED"),
    ("another root", Root, "chroot / /bin/true && echo ESCAPED"),
    ("a device", Never, "mknod /tmp/disk$$ b 254 0 && echo ESCAPED"),
    ("a shared device", Never, "mknod \"$SHARED/disk\" b 254 0 && echo ESCAPED"),
    (
        "a privilege by a set-user-id file",
        Never,
        "cp /usr/bin/id /tmp/id && chmod u+s /tmp/id && test \"$(/tmp/id -u)\" != \"$(id -u)\" && echo ESCAPED",
    ),
    (
        "a set-user-id file left behind",
        Anyone,
        "cp /usr/bin/id \"$SHARED/u$$\" && chmod 4755 \"$SHARED/u$$\"; test -u \"$SHARED/u$$\" && echo ESCAPED",
    ),
    (
        "a set-group-id file left behind",
        Anyone,
        "cp /usr/bin/id \"$SHARED/g$$\" && chmod 2755 \"$SHARED/g$$\"; test -g \"$SHARED/g$$\" && echo ESCAPED",
    ),
    (
        "a capability",
        Root,
        "grep -E 'Cap(Prm|Eff):' /proc/self/status | grep -qv 0000000000000000 && echo ESCAPED",
    ),
    (
        "leave to gain privileges",
        Anyone,
        "grep -q 'NoNewPrivs:.*0' /proc/self/status && echo ESCAPED",
    ),
    ("no filter", Anyone, "grep -q 'Seccomp:.*0' /proc/self/status && echo ESCAPED"),
    ("another user", Root, "setpriv --reuid 1 --clear-groups true && echo ESCAPED"),
    (
        "somebody else's file",
        Root,
        "touch /tmp/own$$ && chown 1 /tmp/own$$ && rm -f /tmp/own$$ && echo ESCAPED",
    ),
    (
        "a higher priority",
        Root,
        "nice -n -5 true 2>/dev/null && test \"$(nice -n -5 nice)\" = -5 && echo ESCAPED",
    ),
    ("another clock", Never, "date -s 2001-01-01 >/dev/null 2>&1 && echo ESCAPED"),
    ("a terminal", Never, "exec 3</dev/tty && echo ESCAPED"),
    // The network.
    (
        "an interface",
        Anyone,
        "tail -n +3 /proc/net/dev | grep -qv ' lo:' && grep -qv '^ *lo:' /proc/net/dev && tail -n +3 /proc/net/dev | grep -v 'lo:' | grep -q : && echo ESCAPED",
    ),
    ("a route", Never, "tail -n +2 /proc/net/route | grep -q . && echo ESCAPED"),
    ("see the host's sockets", Never, "grep -q \"$ABSTRACT\" /proc/net/unix && echo ESCAPED"),
    (
        "leave the control group",
        Never,
        "for f in $(find /sys/fs/cgroup -name cgroup.procs 2>/dev/null | head -9); do (echo $$ > $f) 2>/dev/null && echo ESCAPED; done",
    ),
    // Last, because the others need it.
    ("the engine's death", Never, "kill -9 $ENGINE && echo ESCAPED"),
];

/// What an attempt aims at that a system may not have: without it the attempt proves nothing there.
pub const NEEDS: &[(&str, &[&str])] = &[
    ("read the hashes' backup", &["/etc/shadow-"]),
    ("list the private keys", &["/etc/ssl/private"]),
    ("read the disk", &["/dev/vda", "/dev/sda", "/dev/nvme0n1", "/dev/dm-0"]),
    ("read the kernel's log", &["/dev/kmsg"]),
    ("read the memory", &["/dev/mem", "/proc/kcore"]),
    ("press the magic key", &["/proc/sysrq-trigger"]),
    ("leave the control group", &["/sys/fs/cgroup/cgroup.procs", "/sys/fs/cgroup/pids"]),
    ("another user", &["/usr/bin/setpriv", "/bin/setpriv"]),
];
