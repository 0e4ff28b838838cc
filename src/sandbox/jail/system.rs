//! Which parts of the system every job sees: programs and libraries, a few files of `/etc`, a
//! minimal `/dev`, a private `/tmp`. Never here: a user's own directories.

use std::path::Path;

use super::mounts::{bind, device, devpts, private_tmp, skeleton};
use super::view::{AtStep, Part, What};

/// Directories with programs and libraries. A link (`/bin` to `usr/bin`) is made again as a link.
const PROGRAMS: [&str; 9] =
    ["/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/nix/store", "/gnu/store"];

/// What programs need of `/etc`. Never a file that may hold a secret: no shadow, no private keys,
/// no client configuration.
pub(super) const ETC: [&str; 21] = [
    "passwd",
    "group",
    "nsswitch.conf",
    "ld.so.cache",
    "ld.so.conf",
    "ld.so.conf.d",
    "alternatives",
    "ssl/certs",
    "ssl/openssl.cnf",
    "ca-certificates",
    "pki/tls/certs",
    "pki/ca-trust",
    "localtime",
    "timezone",
    "protocols",
    "services",
    "mime.types",
    "os-release",
    // pip fails where these are there and can't be read, as in the weaker tier.
    "debian_version",
    "lsb-release",
    "redhat-release",
];

/// What a job with the host's network needs beside that to resolve names.
pub(super) const ETC_NETWORK: [&str; 3] = ["resolv.conf", "hosts", "host.conf"];

/// The devices of a job. None of them reaches hardware.
pub(super) const DEVICES: [&str; 6] = ["null", "zero", "full", "random", "urandom", "tty"];

/// Links in `/dev` that programs expect.
const DEV_LINKS: [(&str, &str); 5] = [
    ("/dev/fd", "/proc/self/fd"),
    ("/dev/stdin", "/proc/self/fd/0"),
    ("/dev/stdout", "/proc/self/fd/1"),
    ("/dev/stderr", "/proc/self/fd/2"),
    ("/dev/ptmx", "pts/ptmx"),
];

/// Opens all of it. Must be called while the host's tree is still the root.
pub(super) fn parts(host_network: bool) -> Result<Vec<Part>, String> {
    let mut parts = Vec::new();
    for path in PROGRAMS {
        parts.extend(program_directory(Path::new(path))?);
    }
    etc(&mut parts, host_network)?;
    dev(&mut parts)?;
    parts.push(Part { at: "/tmp".into(), what: What::Tree(private_tmp()?) });
    parts.push(Part { at: "/var/tmp".into(), what: What::Link("/tmp".into()) });
    parts.push(Part { at: "/run".into(), what: What::Directory });
    Ok(parts)
}

fn program_directory(path: &Path) -> Result<Option<Part>, String> {
    let Ok(kind) = path.symlink_metadata() else { return Ok(None) };
    let what = if kind.is_symlink() {
        let target = std::fs::read_link(path);
        What::Link(target.at_step(format_args!("read the link {}", path.display()))?)
    } else {
        bind(path, true)?
    };
    Ok(Some(Part { at: path.to_owned(), what }))
}

fn etc(parts: &mut Vec<Part>, host_network: bool) -> Result<(), String> {
    let network: &[&str] = if host_network { &ETC_NETWORK } else { &[] };
    for name in ETC.iter().chain(network) {
        let path = Path::new("/etc").join(name);
        if path.exists() {
            parts.push(Part { what: bind(&path, true)?, at: path });
        }
    }
    if !host_network {
        let hosts = "127.0.0.1 localhost\n::1 localhost\n".to_owned();
        parts.push(Part { at: "/etc/hosts".into(), what: What::Text(hosts) });
    }
    Ok(())
}

fn dev(parts: &mut Vec<Part>) -> Result<(), String> {
    parts.push(Part { at: "/dev".into(), what: What::Tree(skeleton()?) });
    for name in DEVICES {
        let path = Path::new("/dev").join(name);
        if path.exists() {
            parts.push(Part { what: device(&path)?, at: path });
        }
    }
    for (at, target) in DEV_LINKS {
        parts.push(Part { at: at.into(), what: What::Link(target.into()) });
    }
    parts.push(Part { at: "/dev/shm".into(), what: What::Tree(private_tmp()?) });
    parts.push(Part { at: "/dev/pts".into(), what: What::Tree(devpts()?) });
    Ok(())
}
