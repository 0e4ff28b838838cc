//! What gives the strong tier on this system. Reads a few facts of `/proc`, changes nothing.

use std::path::Path;

/// The flag that does without a proven sandbox.
const WAIVER: &str =
    "or pass --waive-sandbox to run code without a proven sandbox, which the record will show";

/// One or more sentences: the exact option for what this system looks like, and the waiver.
pub(super) fn strong_tier(trouble: Option<&str>) -> String {
    let facts = Facts {
        docker: Path::new("/.dockerenv").exists(),
        podman: Path::new("/run/.containerenv").exists(),
        kubernetes: Path::new("/var/run/secrets/kubernetes.io").exists(),
        apparmor: number("kernel/apparmor_restrict_unprivileged_userns") == Some(1),
        debian_switch: number("kernel/unprivileged_userns_clone") == Some(0),
        no_user_namespaces: number("user/max_user_namespaces") == Some(0),
        root: rustix::process::geteuid().is_root(),
    };
    format!("{}, {WAIVER}", facts.option(trouble))
}

fn number(name: &str) -> Option<u64> {
    std::fs::read_to_string(Path::new("/proc/sys").join(name)).ok()?.trim().parse().ok()
}

/// What is known of the system.
struct Facts {
    docker: bool,
    podman: bool,
    kubernetes: bool,
    apparmor: bool,
    debian_switch: bool,
    no_user_namespaces: bool,
    root: bool,
}

impl Facts {
    fn option(&self, trouble: Option<&str>) -> String {
        if trouble.is_none() {
            return "report this: an attack got through on a system that has the strong tier"
                .into();
        }
        if self.no_user_namespaces {
            return "allow user namespaces: `sysctl -w user.max_user_namespaces=15000`".into();
        }
        if self.debian_switch {
            return "allow user namespaces: `sysctl -w kernel.unprivileged_userns_clone=1`".into();
        }
        if self.kubernetes {
            return "set `securityContext: {seccompProfile: {type: Unconfined}, appArmorProfile: {type: Unconfined}, \
                    procMount: Unmasked}` and `hostUsers: false` in the pod"
                .into();
        }
        if self.podman {
            return "start the container with `podman run --security-opt seccomp=unconfined \
                    --security-opt label=disable --security-opt unmask=ALL`"
                .into();
        }
        if self.docker {
            return "start the container with `docker run --security-opt seccomp=unconfined \
                    --security-opt apparmor=unconfined --security-opt systempaths=unconfined`"
                .into();
        }
        if self.apparmor && !self.root {
            return "allow user namespaces to this program: `sysctl -w \
                    kernel.apparmor_restrict_unprivileged_userns=0`, or an AppArmor profile for it \
                    with `flags=(unconfined) { userns, }`"
                .into();
        }
        "use Linux 5.12 or later with user namespaces and overlayfs".into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NONE: Facts = Facts {
        docker: false,
        podman: false,
        kubernetes: false,
        apparmor: false,
        debian_switch: false,
        no_user_namespaces: false,
        root: false,
    };

    #[test]
    fn names_the_exact_option_of_each_system() {
        let trouble = Some("create the user and other namespaces: EPERM");
        let docker = Facts { docker: true, ..NONE }.option(trouble);
        assert!(docker.contains("--security-opt seccomp=unconfined"));
        assert!(docker.contains("systempaths=unconfined"));
        let ubuntu = Facts { apparmor: true, ..NONE }.option(trouble);
        assert!(ubuntu.contains("kernel.apparmor_restrict_unprivileged_userns=0"));
        assert!(Facts { podman: true, ..NONE }.option(trouble).contains("unmask=ALL"));
        assert!(Facts { debian_switch: true, ..NONE }.option(trouble).contains("userns_clone=1"));
        let off = Facts { no_user_namespaces: true, docker: true, ..NONE }.option(trouble);
        assert!(off.contains("sysctl -w user.max_user_namespaces=15000"), "{off}");
        let pod = Facts { kubernetes: true, ..NONE }.option(trouble);
        assert!(pod.contains("hostUsers: false") && pod.contains("procMount: Unmasked"), "{pod}");
        // Ubuntu's switch does not bind root.
        let root = Facts { apparmor: true, root: true, ..NONE }.option(trouble);
        assert!(!root.contains("apparmor"), "{root}");
        assert!(NONE.option(trouble).contains("Linux 5.12"));
        assert!(NONE.option(None).contains("report this"));
    }
}
