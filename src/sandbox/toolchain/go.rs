//! Go: the installation behind `go`, the module cache read-only, a build cache that begins with what the
//! base's gates left.
//!
//! `GOFLAGS` says nothing of modules: Go's own choice (the vendored modules where there are any, else a
//! read-only `go.mod`) is what a gate wants; `-mod=mod` would mend a candidate's `go.mod` silently. It
//! says that tests run each time: a pass out of the cache proves nothing of a test that is run again
//! because it may be flaky.

use std::path::Path;

use super::{JOB_HOME, Search};

/// Adds go.
pub(super) fn find(search: &mut Search<'_>) {
    let Some(go) = search.program("go") else { return };
    search.show_installation(&go);
    search.toolchains.caches.extend(super::caches::of_go());
    let modules = search.home.join("go/pkg/mod");
    if modules.is_dir() {
        search.show(&modules);
        search.env("GOMODCACHE", modules);
    }
    search.env("GOPATH", Path::new(JOB_HOME).join("go"));
    let built = Path::new(JOB_HOME).join(".cache/go-build");
    search.env("GOCACHE", built.clone());
    search.toolchains.kept.push(("go-build", built));
    search.env("GOFLAGS", "-count=1");
    search.env("GOENV", "off");
    search.env("GOPROXY", "off");
    search.env("GOSUMDB", "off");
    search.env("GOTOOLCHAIN", "local");
    search.env("GOTELEMETRY", "off");
}
