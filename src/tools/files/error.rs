//! Why a file could not be read or written, in words that a model can act on.

use rustix::io::Errno;

/// A refusal or failure of the file layer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FileError {
    /// The text can't be a path of the workspace.
    #[error(
        "path {path:?} {reason}; give a path inside the workspace, relative to its top (for example \"src/lib.rs\")"
    )]
    BadPath {
        /// The path as it was given.
        path: String,
        /// What is wrong with it.
        reason: &'static str,
    },
    /// It is git's own.
    #[error(
        "{path:?} belongs to git: no tool reads or writes it as a file; git tells what is in it (`git log`, `git show`, `git status` by run_bash)"
    )]
    DotGit {
        /// The path.
        path: String,
    },
    /// A file that by its name holds secrets.
    #[error(
        "{path:?} looks like a file of secrets and is not read; ask the operator if you need it"
    )]
    Secret {
        /// The path.
        path: String,
    },
    /// A symbolic link leads out.
    #[error(
        "{path:?} goes through a symbolic link that leaves the workspace; only files inside it can be used"
    )]
    Outside {
        /// The path.
        path: String,
    },
    /// A symbolic link where a file is to be written.
    #[error(
        "{path:?} is a symbolic link to {target:?}; writing through it is refused: write to the file it names"
    )]
    LinkWrite {
        /// The path.
        path: String,
        /// Where it leads.
        target: String,
    },
    /// Nothing there.
    #[error("no file or directory {path:?} in the workspace; list_dir and glob show what is there")]
    NotFound {
        /// The path.
        path: String,
    },
    /// A directory where a file is needed.
    #[error("{path:?} is a directory; list_dir shows what is in it")]
    IsDirectory {
        /// The path.
        path: String,
    },
    /// A file where a directory is needed.
    #[error("{path:?} is not a directory, or a part of it is not")]
    NotDirectory {
        /// The path.
        path: String,
    },
    /// A FIFO, a socket or a device.
    #[error("{path:?} is a {kind}, not a regular file; only regular files are read and written")]
    Special {
        /// The path.
        path: String,
        /// What it is.
        kind: &'static str,
    },
    /// Too big to hold.
    #[error(
        "{path:?} has {bytes} bytes, more than the {most} that this tool takes; use grep, or read_file with start_line and end_line"
    )]
    TooBig {
        /// The path.
        path: String,
        /// Its size.
        bytes: u64,
        /// The limit.
        most: u64,
    },
    /// A link was put where there was none a moment before.
    #[error("{path:?} changed while it was being opened; try again")]
    Changed {
        /// The path.
        path: String,
    },
    /// Anything else that the system said.
    #[error("{path:?}: {reason}")]
    System {
        /// The path.
        path: String,
        /// The system's words.
        reason: String,
    },
}

impl FileError {
    /// The error for what the system said about `path`.
    pub(super) fn from_errno(path: &str, errno: Errno) -> Self {
        let path = path.to_owned();
        match errno {
            Errno::NOENT => Self::NotFound { path },
            Errno::NOTDIR => Self::NotDirectory { path },
            Errno::ISDIR => Self::IsDirectory { path },
            Errno::XDEV => Self::Outside { path },
            Errno::LOOP | Errno::AGAIN => Self::Changed { path },
            Errno::NOSYS => Self::System {
                path,
                reason: "this kernel has no openat2; Linux 5.6 or newer is needed".to_owned(),
            },
            other => Self::System { path, reason: std::io::Error::from(other).to_string() },
        }
    }
}
