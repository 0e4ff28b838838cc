//! Attempts to get out, one script each. A script prints `ESCAPED` when it succeeds; where that does
//! no harm it is also run outside of any sandbox, to show that the attempt itself works.

use std::io::Read;
use std::process::Command;

use bakeoff::sandbox::{JobSpec, Network, Tier};

use super::stage::*;

/// Whether an attempt is also made without a sandbox, where it has to succeed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Control {
    /// It is, by any user.
    Anyone,
    /// It is, when the tests run as root.
    Root,
    /// It would do harm, or needs what is not there.
    Never,
}
use Control::{Anyone, Never, Root};

/// `$SECRET` is a file with `top-secret`, `$OUTSIDE` a directory that the engine's user may write,
/// `$ENGINE` the engine's process, whose environment holds `HOST_SECRET`; `$SHARED` is a directory
/// that the job may write, and `$FIXED` one that it may only read.
const ATTEMPTS: &[(&str, Control, &str)] = &[
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
    (
        "another host name",
        Never,
        "hostname owned 2>/dev/null && test \"$(hostname)\" = owned && echo ESCAPED",
    ),
    ("another clock", Never, "date -s 2001-01-01 >/dev/null 2>&1 && echo ESCAPED"),
    ("a terminal", Never, "exec 3</dev/tty && echo ESCAPED"),
    ("the engine's death", Never, "kill -9 $ENGINE && echo ESCAPED"),
    // The network.
    (
        "an interface",
        Anyone,
        "tail -n +3 /proc/net/dev | grep -qv ' lo:' && grep -qv '^ *lo:' /proc/net/dev && tail -n +3 /proc/net/dev | grep -v 'lo:' | grep -q : && echo ESCAPED",
    ),
    ("a route", Never, "tail -n +2 /proc/net/route | grep -q . && echo ESCAPED"),
    ("see the host's sockets", Never, "grep -q \"$ABSTRACT\" /proc/net/unix && echo ESCAPED"),
];

/// Attempts that need Python, with the same rules.
const PYTHON: &[(&str, Control, &str)] = &[
    (
        "connect to the engine",
        Anyone,
        "import socket,os; socket.create_connection(('127.0.0.1',int(os.environ['PORT'])),3); print('ESCAPED')",
    ),
    (
        "connect to the engine by IPv6",
        Never,
        "import socket,os; socket.create_connection(('::1',int(os.environ['PORT'])),3); print('ESCAPED')",
    ),
    (
        "connect to a named socket",
        Anyone,
        "import socket,os; socket.socket(socket.AF_UNIX).connect('\\0'+os.environ['ABSTRACT']); print('ESCAPED')",
    ),
    (
        "connect to a socket file",
        Anyone,
        "import socket,os; socket.socket(socket.AF_UNIX).connect(os.environ['SOCKET']); print('ESCAPED')",
    ),
    (
        "reach the virtual machine's host",
        Never,
        "import socket; socket.socket(40,socket.SOCK_STREAM); print('ESCAPED')",
    ),
    (
        "open a raw socket",
        Root,
        "import socket; socket.socket(socket.AF_INET,socket.SOCK_RAW,1); print('ESCAPED')",
    ),
    (
        "open a packet socket",
        Root,
        "import socket; socket.socket(socket.AF_PACKET,socket.SOCK_RAW); print('ESCAPED')",
    ),
    (
        "use the kernel's ciphers",
        Never,
        "import socket; socket.socket(38,socket.SOCK_SEQPACKET); print('ESCAPED')",
    ),
    (
        "trace the init",
        Never,
        "import ctypes; c=ctypes.CDLL(None); print('ESCAPED' if c.ptrace(0x4206,1,0,0)==0 else '')",
    ),
    (
        "trace its own child",
        Anyone,
        "import ctypes,os,time\np=os.fork()\nif p==0: time.sleep(5); os._exit(0)\nc=ctypes.CDLL(None); print('ESCAPED' if c.ptrace(0x4206,p,0,0)==0 else '')\nos.kill(p,9)",
    ),
    (
        "use the kernel's keys",
        Never,
        "import ctypes; c=ctypes.CDLL(None); print('ESCAPED' if c.syscall(250,0,-3,0)>=0 else '')",
    ),
    (
        "use io_uring",
        Never,
        "import ctypes; c=ctypes.CDLL(None); b=ctypes.create_string_buffer(512); print('ESCAPED' if c.syscall(425,8,b)>=0 else '')",
    ),
    (
        "load a program into the kernel",
        Never,
        "import ctypes; c=ctypes.CDLL(None); b=ctypes.create_string_buffer(128); print('ESCAPED' if c.syscall(321,0,b,128)>=0 else '')",
    ),
    (
        "push into a terminal",
        Never,
        "import fcntl,pty,os\nm,s=pty.openpty()\npid=os.fork()\nif pid==0:\n os.setsid(); fcntl.ioctl(s,0x540e,0)\n try: fcntl.ioctl(s,0x5412,b'x'); print('ESCAPED',flush=True)\n except OSError: pass\n os._exit(0)\nos.waitpid(pid,0)",
    ),
    (
        "call by the second set of numbers",
        Never,
        "import ctypes; c=ctypes.CDLL(None); print('ESCAPED' if c.syscall(0x40000000+272,0x10000000)==0 else '')",
    ),
];

/// What the attempts aim at.
struct Target {
    _dir: tempfile::TempDir,
    env: Vec<(&'static str, String)>,
    tcp: std::net::TcpListener,
    _path: std::os::unix::net::UnixListener,
    _named: std::os::unix::net::UnixListener,
    engine: std::process::Child,
}

impl Drop for Target {
    fn drop(&mut self) {
        let _ = self.engine.kill();
        let _ = self.engine.wait();
    }
}

fn target() -> Target {
    use std::os::linux::net::SocketAddrExt;
    let dir = folder();
    let at = |name: &str| dir.path().join(name).to_string_lossy().into_owned();
    for name in ["outside", "shared", "fixed"] {
        std::fs::create_dir(at(name)).unwrap();
    }
    std::fs::write(at("fixed/file"), "x").unwrap();
    std::fs::write(at("outside/secret"), "top-secret").unwrap();
    let tcp = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let path = std::os::unix::net::UnixListener::bind(at("outside/socket")).unwrap();
    let name = nonce();
    let address = std::os::unix::net::SocketAddr::from_abstract_name(&name).unwrap();
    let named = std::os::unix::net::UnixListener::bind_addr(&address).unwrap();
    // A stand-in for the engine, with a secret in its environment.
    let engine = Command::new("cat")
        .env("HOST_SECRET", "s")
        .stdin(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let env = vec![
        ("SECRET", at("outside/secret")),
        ("OUTSIDE", at("outside")),
        ("SHARED", at("shared")),
        ("FIXED", at("fixed")),
        ("SOCKET", at("outside/socket")),
        ("PORT", tcp.local_addr().unwrap().port().to_string()),
        ("ABSTRACT", name),
        ("ENGINE", engine.id().to_string()),
    ];
    Target { _dir: dir, env, tcp, _path: path, _named: named, engine }
}

impl Target {
    fn get(&self, name: &str) -> std::path::PathBuf {
        self.env.iter().find(|(known, _)| *known == name).unwrap().1.clone().into()
    }

    fn job(&self, argv: [&str; 3]) -> JobSpec {
        let mut spec = sh("");
        spec.argv = argv.map(Into::into).into();
        for (name, value) in &self.env {
            spec = with_env(spec, name, value);
        }
        spec.mounts.push(shared(&self.get("SHARED")));
        let fixed = self.get("FIXED");
        spec.mounts.push(bakeoff::sandbox::Mount::ReadOnly { from: fixed.clone(), at: fixed });
        spec
    }

    /// The same command without a sandbox.
    fn free(&self, argv: [&str; 3]) -> String {
        let mut child = Command::new(argv[0])
            .args(&argv[1..])
            .envs(self.env.iter().map(|(name, value)| (name, value)))
            .stdout(std::process::Stdio::piped())
            .stderr(std::process::Stdio::null())
            .spawn()
            .unwrap();
        let mut text = String::new();
        child.stdout.take().unwrap().read_to_string(&mut text).unwrap();
        child.wait().unwrap();
        text
    }
}

/// Makes every attempt as a job of `system`; answers how many were made.
fn attempt_all(system: System) -> usize {
    let python: &[_] = if python() { PYTHON } else { &[] };
    if python.is_empty() {
        eprintln!("no python3 among the system's programs: {} attempts are left out", PYTHON.len());
    }
    on(system, move || async move {
        let launcher = launcher().await;
        assert_eq!(launcher.tier(), expected_tier(system));
        let target = target();
        let mut escaped = Vec::new();
        let shell = ATTEMPTS.iter().map(|attempt| (attempt, ["sh", "-c"]));
        let snake = python.iter().map(|attempt| (attempt, ["/usr/bin/python3", "-c"]));
        let mut made = 0;
        for ((name, _, script), [program, flag]) in shell.chain(snake) {
            if launcher.tier() == Tier::Landlock && WEAK.contains(name) {
                continue;
            }
            let exit = run(&launcher, target.job([program, flag, script])).await.unwrap();
            let text = String::from_utf8_lossy(&exit.output).into_owned();
            if text.lines().any(|line| line == "ESCAPED") {
                escaped.push(format!("{name}: {text}"));
            }
            made += 1;
        }
        assert!(escaped.is_empty(), "{system:?}: {escaped:#?}");
        assert!(!target.get("OUTSIDE").join("made").exists());
        target.tcp.set_nonblocking(true).unwrap();
        assert!(target.tcp.accept().is_err(), "a connection came in");
        made
    })
}

/// What the weaker tier does not stop by design: it has the host's own `/proc`, `/etc` names and
/// network interfaces to look at. It is never proven, and needs a waiver.
const WEAK: [&str; 12] = [
    // Landlock has no rule for modes, owners and times of files.
    "change a read-only file",
    "an interface",
    "a route",
    "see the host's sockets",
    "read the init's environment",
    "find the engine's process",
    "the engine's death",
    "list homes",
    "read the kernel's log",
    "raise the limit of processes",
    "another host name",
    "read the system's tree",
];

#[test]
fn no_attempt_succeeds_in_the_strong_tier() {
    let mut made = 0;
    for system in STRONG {
        made += attempt_all(system);
    }
    assert!(made >= 2 * 60, "only {made} attempts were made");
}

#[test]
fn few_attempts_succeed_in_the_weaker_tier() {
    attempt_all(System::NoNamespaces);
}

#[test]
fn the_attempts_succeed_without_a_sandbox() {
    let root = rustix::process::geteuid().is_root();
    let target = target();
    let mut dull = Vec::new();
    let shell = ATTEMPTS.iter().map(|attempt| (attempt, ["sh", "-c"]));
    let python: &[_] = if python() { PYTHON } else { &[] };
    let snake = python.iter().map(|attempt| (attempt, ["/usr/bin/python3", "-c"]));
    for ((name, control, script), [program, flag]) in shell.chain(snake) {
        let wanted = *control == Anyone || (*control == Root && root);
        if wanted && !target.free([program, flag, script]).lines().any(|line| line == "ESCAPED") {
            dull.push(*name);
        }
    }
    assert!(dull.is_empty(), "these attempts prove nothing: {dull:?}");
}

#[test]
fn the_operators_setup_may_have_the_network_and_nothing_else() {
    on(System::Here, || async {
        let target = target();
        let launcher = launcher().await;
        let script = "grep -qs top-secret \"$SECRET\" && echo ESCAPED; cat /proc/net/dev | wc -l; test -s /etc/resolv.conf && echo named";
        let spec = JobSpec { network: Network::Host, ..target.job(["sh", "-c", script]) };
        let text = output(&launcher, spec).await;
        assert!(!text.contains("ESCAPED"), "{text}");
        let lines = std::fs::read_to_string("/proc/net/dev").unwrap().lines().count();
        assert_eq!(text.lines().next().unwrap(), lines.to_string(), "{text}");
    });
}

#[test]
fn a_setup_with_the_network_works_in_the_weaker_tier() {
    if !python() {
        return eprintln!("no python3 among the system's programs: sockets are not tried");
    }
    on(System::NoNamespaces, || async {
        let target = target();
        let script = "import socket,os; socket.create_connection(('127.0.0.1',int(os.environ['PORT'])),3); print('connected')";
        let spec = target.job(["/usr/bin/python3", "-c", script]);
        let spec = JobSpec { network: Network::Host, ..spec };
        assert_eq!(output(&launcher().await, spec).await, "connected\n");
    });
}
