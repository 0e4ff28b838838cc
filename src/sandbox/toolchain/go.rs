//! Go: the installation behind `go`, the module cache read-only, a private build cache.
//!
//! `GOFLAGS` stays unset: Go's own choice (the vendored modules where there are any, else a
//! read-only `go.mod`) is what a gate wants; `-mod=mod` would mend a candidate's `go.mod` silently.

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
    search.env("GOCACHE", Path::new(JOB_HOME).join(".cache/go-build"));
    search.env("GOENV", "off");
    search.env("GOPROXY", "off");
    search.env("GOSUMDB", "off");
    search.env("GOTOOLCHAIN", "local");
    search.env("GOTELEMETRY", "off");
}
