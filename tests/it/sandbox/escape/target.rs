//! What the attempts aim at, and the two ways to make one: as a job, and without a sandbox.

use std::io::Read;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use bakeoff::sandbox::{JobSpec, Mount, Tier};

use super::inside;
use crate::sandbox::stage::*;

/// Where the test's own program stands in a view of the strong tier.
const PROGRAM: &str = "/run/attempts";

/// One attempt.
#[derive(Clone, Copy)]
pub enum Means {
    Shell(&'static str),
    /// By its name.
    Inside(&'static str),
}

/// Planted by the test; gone when dropped.
pub struct Target {
    _dir: tempfile::TempDir,
    env: Vec<(&'static str, String)>,
    pub tcp: std::net::TcpListener,
    _path: std::os::unix::net::UnixListener,
    _named: std::os::unix::net::UnixListener,
    engine: Child,
    shared_memory: i32,
    /// Whether the kernel has message queues.
    pub queue: bool,
}

impl Drop for Target {
    fn drop(&mut self) {
        let _ = self.engine.kill();
        let _ = self.engine.wait();
        // SAFETY: the calls take a number and a C string.
        unsafe {
            libc::shmctl(self.shared_memory, libc::IPC_RMID, std::ptr::null_mut());
            libc::mq_unlink(self.queue_name().as_ptr());
        }
    }
}

pub fn target() -> Target {
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
    let engine = Command::new("cat").env("HOST_SECRET", "s").stdin(Stdio::piped()).spawn().unwrap();
    let shared_memory = plant_shared_memory();
    let env = vec![
        ("SECRET", at("outside/secret")),
        ("OUTSIDE", at("outside")),
        ("SHARED", at("shared")),
        ("FIXED", at("fixed")),
        ("SOCKET", at("outside/socket")),
        ("PORT", tcp.local_addr().unwrap().port().to_string()),
        ("ABSTRACT", name),
        ("ENGINE", engine.id().to_string()),
        ("SHM", shared_memory.to_string()),
    ];
    let mut target = Target {
        _dir: dir,
        env,
        tcp,
        _path: path,
        _named: named,
        engine,
        shared_memory,
        queue: false,
    };
    let flags = libc::O_CREAT | libc::O_RDWR;
    let attributes = std::ptr::null::<libc::mq_attr>();
    // SAFETY: the name is a C string; no attributes means the usual ones.
    target.queue =
        unsafe { libc::mq_open(target.queue_name().as_ptr(), flags, 0o600, attributes) } >= 0;
    target
}

fn plant_shared_memory() -> i32 {
    // SAFETY: the segment is mapped with the size that was asked for, and is larger than the text.
    unsafe {
        let id = libc::shmget(libc::IPC_PRIVATE, 4096, libc::IPC_CREAT | 0o600);
        assert!(id >= 0, "{}", std::io::Error::last_os_error());
        let at = libc::shmat(id, std::ptr::null(), 0).cast::<u8>();
        at.copy_from(b"top-secret".as_ptr(), 10);
        libc::shmdt(at.cast());
        id
    }
}

impl Target {
    pub fn get(&self, name: &str) -> PathBuf {
        self.env.iter().find(|(known, _)| *known == name).unwrap().1.clone().into()
    }

    fn queue_name(&self) -> std::ffi::CString {
        std::ffi::CString::new(format!("/{}", self.get("ABSTRACT").display())).unwrap()
    }

    /// The job that makes an attempt.
    pub fn job(&self, means: Means, tier: Tier) -> JobSpec {
        let mut spec = sh("");
        for (name, value) in &self.env {
            spec = with_env(spec, name, value);
        }
        spec.mounts.push(shared(&self.get("SHARED")));
        let fixed = self.get("FIXED");
        spec.mounts.push(Mount::ReadOnly { from: fixed.clone(), at: fixed });
        let program = std::env::current_exe().unwrap();
        let at = if tier.can_mount() { PROGRAM.into() } else { program.clone() };
        if let Means::Inside(name) = means {
            spec.mounts.push(Mount::ReadOnly { from: program, at: at.clone() });
            spec = with_env(spec, inside::NAME, name);
        }
        spec.argv = argv(means, at).into_iter().map(Into::into).collect();
        spec
    }

    /// The output of the same attempt without a sandbox.
    pub fn free(&self, means: Means) -> String {
        let argv = argv(means, std::env::current_exe().unwrap());
        let mut command = Command::new(&argv[0]);
        if let Means::Inside(name) = means {
            command.env(inside::NAME, name);
        }
        let mut child = command
            .args(&argv[1..])
            .envs(self.env.iter().map(|(name, value)| (name, value)))
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut text = String::new();
        child.stdout.take().unwrap().read_to_string(&mut text).unwrap();
        child.wait().unwrap();
        text
    }
}

fn argv(means: Means, program: PathBuf) -> Vec<String> {
    match means {
        // In a shell of its own, so that an attempt that ends its shell is known to have run.
        Means::Shell(script) => {
            ["sh", "-c", &format!("(\n{script}\n)\necho RAN")].map(Into::into).into()
        }
        Means::Inside(_) => [
            program.to_str().unwrap(),
            "--exact",
            "sandbox::escape::inside::attempt_from_inside",
            "--nocapture",
            "--test-threads=1",
        ]
        .map(Into::into)
        .into(),
    }
}
