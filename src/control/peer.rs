//! Who is at the other end of the socket, by the kernel's word.
//!
//! The only place where a [`Sender`] is made: nothing that a model or a repository says becomes one.

use tokio::net::UnixStream;

use crate::model::Sender;

/// Who sent a request, if it is somebody who is served: the run's own user, and root. The directory may be
/// open to others.
pub(super) fn sender(stream: &UnixStream) -> Option<Sender> {
    let uid = stream.peer_cred().ok()?.uid();
    let served = uid == rustix::process::geteuid().as_raw() || uid == 0;
    served.then(|| Sender::of_peer(uid, login(uid, &users())))
}

/// The system's list of users; empty where there is none.
fn users() -> String {
    let read = std::fs::read("/etc/passwd").unwrap_or_default();
    String::from_utf8_lossy(&read).into_owned()
}

/// A user's login name in a list of users (`name:password:uid:…`).
fn login(uid: u32, users: &str) -> Option<String> {
    users.lines().find_map(|line| {
        let mut fields = line.split(':');
        let name = fields.next().filter(|name| !name.is_empty())?;
        (fields.nth(1)? == uid.to_string()).then(|| name.to_owned())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_come_from_the_systems_list() {
        let users =
            "root:x:0:0::/root:/bin/sh\n:x:7::\nbroken\nada:x:1000:1000:Ada:/home/ada:/bin/sh\n";
        assert_eq!(login(1000, users).as_deref(), Some("ada"));
        assert_eq!(login(0, users).as_deref(), Some("root"));
        assert_eq!(login(7, users), None);
    }
}
