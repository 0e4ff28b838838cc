//! What the tools' own tests share: a workspace in a temporary directory.

use std::path::Path;
use std::sync::Arc;

use tempfile::TempDir;
use tokio_util::sync::CancellationToken;

use super::{Registry, ToolContext, ToolOutput, open_workspace};
use crate::model::RunToken;
use crate::sandbox::Launch;

/// A workspace with something beside it that must not be reached.
pub(super) struct Fixture {
    pub outer: TempDir,
    pub context: ToolContext,
    runtime: tokio::runtime::Runtime,
}

impl Fixture {
    pub fn new() -> Self {
        Self::with(None)
    }

    pub fn with(launch: Option<Arc<dyn Launch>>) -> Self {
        let outer = TempDir::new().unwrap();
        let top = outer.path().join("space");
        std::fs::create_dir_all(top.join(".git")).unwrap();
        std::fs::write(top.join(".git/config"), "SECRET-OF-GIT\n").unwrap();
        std::fs::write(outer.path().join("outside.txt"), "OUTSIDE\n").unwrap();
        let workspace = Arc::new(open_workspace(&top).unwrap());
        let context =
            ToolContext::new(workspace, RunToken::new("00"), launch, CancellationToken::new());
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        Self { outer, context, runtime }
    }

    pub fn top(&self) -> &Path {
        &self.context.workspace.path
    }

    pub fn put(&self, path: &str, body: impl AsRef<[u8]>) {
        let path = self.top().join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, body).unwrap();
    }

    pub fn get(&self, path: &str) -> String {
        std::fs::read_to_string(self.top().join(path)).unwrap()
    }

    pub fn link(&self, target: &str, at: &str) {
        std::os::unix::fs::symlink(target, self.top().join(at)).unwrap();
    }

    /// One call through the registry, as a worker makes it.
    pub fn call(&self, name: &str, arguments: serde_json::Value) -> ToolOutput {
        self.call_text(name, &arguments.to_string())
    }

    pub fn call_text(&self, name: &str, arguments: &str) -> ToolOutput {
        self.runtime.block_on(Registry::standard().call(&self.context, name, arguments))
    }

    /// A call that must be done.
    pub fn done(&self, name: &str, arguments: serde_json::Value) -> String {
        let output = self.call(name, arguments);
        assert!(!output.is_error, "{name}: {}", output.text);
        output.text
    }

    /// A call that must be refused.
    pub fn refused(&self, name: &str, arguments: serde_json::Value) -> String {
        let output = self.call(name, arguments);
        assert!(output.is_error, "{name}: {}", output.text);
        output.text
    }
}
