//! The bounded history that a run's store shows: the base, its newest ancestors, and a clean border.
//!
//! Only ancestors of the base are ever looked at, so that no later commit, other branch or reflog can
//! get in. A commit is shown with all of its tree or not at all: where an ancestor's objects are not
//! there (a shallow or partial clone) or are too many, the history ends before it, as a shallow clone's
//! does. Never here: a fetch, and the writing of objects.

use std::collections::{BinaryHeap, HashMap, HashSet};

use git2::{ObjectType, Oid};

use super::error::{RepoError, Result};
use super::object_db::Objects;
use super::objects::{self, GITLINK, TREE, canonical};

/// The most bytes that the ancestors' own files may have together.
const MOST_BYTES: usize = 64 << 20;

/// The commits that are shown.
#[derive(Debug)]
pub(crate) struct Window {
    /// The base first, then its ancestors, newest first.
    pub(crate) commits: Vec<Oid>,
    /// Those whose parents are not shown, in git's own sense: it takes them for commits without any.
    pub(crate) border: Vec<Oid>,
    known: HashMap<Oid, Commit>,
}

/// What counts of a commit.
#[derive(Clone, Debug)]
struct Commit {
    tree: Oid,
    parents: Vec<Oid>,
    /// The committer's time in seconds since 1970.
    time: i64,
}

/// The window of `base` with at most `most` ancestors.
///
/// # Errors
/// When the base itself is not there.
pub(crate) fn window(odb: &Objects<'_>, base: Oid, most: u32) -> Result<Window> {
    let mut known = HashMap::new();
    let mut order = Vec::new();
    let mut waiting = BinaryHeap::from([(i64::MAX, base)]);
    let mut met = HashSet::from([base]);
    while let Some((_, id)) = waiting.pop() {
        let commit = match read(odb, id) {
            Ok(commit) => commit,
            Err(error) if id == base => return Err(error),
            // A shallow clone ends here.
            Err(_) => continue,
        };
        for parent in commit.parents.iter().filter(|_| most > 0) {
            if met.insert(*parent) {
                // The newest child first; a parent is no newer than its child, whatever it says.
                let time = read(odb, *parent).map_or(i64::MIN, |parent| parent.time);
                waiting.push((time.min(commit.time), *parent));
            }
        }
        known.insert(id, commit);
        order.push(id);
        if order.len() > most as usize {
            break;
        }
    }
    let mut window = Window { commits: order, border: Vec::new(), known };
    window.close();
    Ok(window)
}

impl Window {
    /// Leaves only what can be reached from the base without a gap, and finds the border.
    fn close(&mut self) {
        let inside: HashSet<Oid> = self.commits.iter().copied().collect();
        let mut reached = HashSet::new();
        self.border.clear();
        let mut todo: Vec<Oid> = self.commits.first().copied().into_iter().collect();
        while let Some(id) = todo.pop() {
            let Some(commit) = self.known.get(&id).filter(|_| reached.insert(id)) else { continue };
            if commit.parents.iter().all(|parent| inside.contains(parent)) {
                todo.extend(&commit.parents);
            } else {
                self.border.push(id);
            }
        }
        self.commits.retain(|id| reached.contains(id));
        self.border.sort_unstable();
    }

    /// The objects of the window that `have` does not have yet: commits, trees and files. The window
    /// gets smaller where an ancestor's are not there, or are too many.
    ///
    /// # Errors
    /// When a tree of the base is not there or is malformed; its files are not looked at.
    pub(crate) fn gather(
        &mut self,
        odb: &Objects<'_>,
        have: &dyn Fn(Oid) -> bool,
    ) -> Result<Vec<Oid>> {
        let mut gatherer = Gatherer { odb, have, met: HashSet::new(), found: Vec::new() };
        let mut bytes = 0;
        let mut shown = 0;
        for (index, id) in self.commits.iter().enumerate() {
            let Some(commit) = self.known.get(id) else { break };
            let before = gatherer.found.len();
            let fits = match gatherer.tree(commit.tree) {
                Err(error) if index == 0 => return Err(error),
                Err(_) => false,
                Ok(()) if index == 0 => true,
                Ok(()) => {
                    bytes += gatherer.size_since(before).unwrap_or(usize::MAX / 4);
                    bytes <= MOST_BYTES
                }
            };
            if !fits {
                gatherer.found.truncate(before);
                break;
            }
            if !have(*id) {
                gatherer.found.push(*id);
            }
            shown += 1;
        }
        if shown < self.commits.len() {
            self.commits.truncate(shown);
            self.close();
        }
        Ok(gatherer.found)
    }
}

struct Gatherer<'a> {
    odb: &'a Objects<'a>,
    have: &'a dyn Fn(Oid) -> bool,
    met: HashSet<Oid>,
    found: Vec<Oid>,
}

impl Gatherer<'_> {
    /// A tree that is had is had with all below it.
    fn tree(&mut self, id: Oid) -> Result<()> {
        if !self.met.insert(id) || (self.have)(id) {
            return Ok(());
        }
        for entry in objects::read_tree(self.odb, id)? {
            match canonical(entry.mode) {
                TREE => self.tree(entry.id)?,
                GITLINK => {}
                _ if self.met.insert(entry.id) && !(self.have)(entry.id) => {
                    self.found.push(entry.id)
                }
                _ => {}
            }
        }
        self.found.push(id);
        Ok(())
    }

    /// The bytes of what was found from an index on; nothing when one is not there.
    fn size_since(&self, index: usize) -> Option<usize> {
        let size = |id: &Oid| self.odb.size(*id);
        self.found[index..].iter().map(size).sum()
    }
}

fn read(odb: &Objects<'_>, id: Oid) -> Result<Commit> {
    let raw = odb.read(id, ObjectType::Commit)?;
    parse(&raw).ok_or_else(|| RepoError::Mismatch(format!("commit {id} is malformed")))
}

/// Reads the headers of a commit object.
fn parse(raw: &[u8]) -> Option<Commit> {
    let text = |bytes: &[u8]| std::str::from_utf8(bytes).ok().map(str::to_owned);
    let (mut tree, mut parents, mut time) = (None, Vec::new(), 0);
    for line in raw.split(|byte| *byte == b'\n').take_while(|line| !line.is_empty()) {
        if let Some(id) = line.strip_prefix(b"tree ") {
            tree = Some(Oid::from_str(&text(id)?).ok()?);
        } else if let Some(id) = line.strip_prefix(b"parent ") {
            parents.push(Oid::from_str(&text(id)?).ok()?);
        } else if let Some(who) = line.strip_prefix(b"committer ") {
            let mut words = who.rsplit(|byte| *byte == b' ');
            let seconds = words.nth(1).and_then(text);
            time = seconds.and_then(|seconds| seconds.parse().ok()).unwrap_or(0);
        }
    }
    Some(Commit { tree: tree?, parents, time })
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Made {
        _dir: tempfile::TempDir,
        repo: git2::Repository,
    }

    impl Made {
        fn new() -> Self {
            let dir = tempfile::tempdir().unwrap();
            let repo = git2::Repository::init_bare(dir.path()).unwrap();
            Self { _dir: dir, repo }
        }

        fn commit(&self, parents: &[Oid], time: i64, text: &[u8]) -> Oid {
            let odb = Objects::of(&self.repo).unwrap();
            let id = odb.write(ObjectType::Blob, text).unwrap();
            let entry = objects::Entry { name: b"f".to_vec(), mode: objects::FILE, id };
            let tree = objects::write_tree(&odb, vec![entry]).unwrap();
            let parents: String = parents.iter().map(|id| format!("parent {id}\n")).collect();
            let who = format!("t <t@localhost> {time} +0000");
            let raw = format!("tree {tree}\n{parents}author {who}\ncommitter {who}\n\nm\n");
            odb.write(ObjectType::Commit, raw.as_bytes()).unwrap()
        }
    }

    #[test]
    fn a_window_has_no_gap_and_ends_at_a_border() {
        let made = Made::new();
        let root = made.commit(&[], 1, b"root");
        let left = made.commit(&[root], 2, b"left");
        let right = made.commit(&[root], 3, b"right");
        let merge = made.commit(&[left, right], 4, b"merge");
        let base = made.commit(&[merge], 5, b"base");
        let odb = Objects::of(&made.repo).unwrap();
        let shown = |most| {
            let window = window(&odb, base, most).unwrap();
            (window.commits, window.border)
        };
        assert_eq!(shown(0), (vec![base], vec![base]));
        assert_eq!(shown(1), (vec![base, merge], vec![merge]));
        // One parent of the merge is not in the window: neither is shown.
        assert_eq!(shown(2), (vec![base, merge], vec![merge]));
        let mut border = vec![left, right];
        border.sort_unstable();
        assert_eq!(shown(3), (vec![base, merge, right, left], border));
        assert_eq!(shown(9), (vec![base, merge, right, left, root], vec![]));
    }

    #[test]
    fn ancestors_that_lie_about_time_or_are_missing_end_it() {
        let made = Made::new();
        let old = made.commit(&[], 900, b"old");
        let lost = Oid::from_bytes(&[9; 20]).unwrap();
        let second = made.commit(&[old, lost], 5, b"second");
        let base = made.commit(&[second], 10, b"base");
        let odb = Objects::of(&made.repo).unwrap();
        let mut window = window(&odb, base, 50).unwrap();
        assert_eq!(window.commits, [base, second]);
        assert_eq!(window.border, [second]);
        let all = window.gather(&odb, &|_| false).unwrap();
        assert_eq!(all.len(), 6, "a file, a tree and a commit each");
        let known = all[..3].to_vec();
        assert_eq!(window.gather(&odb, &|id| known.contains(&id)).unwrap(), all[3..]);
    }

    #[test]
    fn a_history_of_large_files_is_cut_short() {
        let made = Made::new();
        let huge = made.commit(&[], 1, &vec![b'x'; MOST_BYTES + 1]);
        let small = made.commit(&[huge], 2, b"small");
        let base = made.commit(&[small], 3, b"base");
        let odb = Objects::of(&made.repo).unwrap();
        let mut window = window(&odb, base, 50).unwrap();
        window.gather(&odb, &|_| false).unwrap();
        assert_eq!((window.commits, window.border), (vec![base, small], vec![small]));
    }
}
