//! Files that define, run or outrank a check: a candidate that touches one is flagged.
//!
//! A flag is for the gates, the judges and a reader. Nothing is refused here.

/// What a path is, if touching it can change what a check says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum GateFile {
    /// It configures a check, a build or a continuous integration.
    Configures,
    /// A tool runs it on its own (hooks, start-up files, agent servers).
    RunsOnItsOwn,
    /// It stands in for something installed or typed elsewhere.
    Shadows,
    /// It belongs to this engine.
    Engine,
}

impl GateFile {
    /// The flag's code.
    pub(super) fn code(self) -> &'static str {
        match self {
            Self::Configures | Self::Engine => "touches-gate",
            Self::RunsOnItsOwn => "runs-on-its-own",
            Self::Shadows => "shadows",
        }
    }

    /// What a reader should know.
    pub(super) fn detail(self) -> &'static str {
        match self {
            Self::Configures => "configures a check, a build or its surroundings",
            Self::RunsOnItsOwn => "is run by tools without being asked",
            Self::Shadows => "can stand in for code or types that a check relies on",
            Self::Engine => "configures the engine that judges this change",
        }
    }
}

/// Looks at a path, case ignored.
pub(super) fn gate_file(path: &[u8]) -> Option<GateFile> {
    let path = String::from_utf8_lossy(path).to_lowercase();
    let (directories, name) = path.rsplit_once('/').unwrap_or(("", &path));
    let inside = |wanted: &str| directories.split('/').any(|directory| directory == wanted);
    if name == "bakeoff.toml" || inside(".bakeoff") {
        return Some(GateFile::Engine);
    }
    if RUN_NAMES.contains(&name)
        || name.ends_with(".pth")
        || RUN_DIRECTORIES.iter().any(|d| inside(d))
    {
        return Some(GateFile::RunsOnItsOwn);
    }
    if inside("node_modules") || inside("site-packages") || inside(".venv") || shadows(name) {
        return Some(GateFile::Shadows);
    }
    let configures = NAMES.contains(&name)
        || STEMS.iter().any(|stem| name.starts_with(stem))
        || DIRECTORIES.iter().any(|directory| inside(directory))
        || (name.starts_with("requirements") && name.ends_with(".txt"));
    configures.then_some(GateFile::Configures)
}

fn shadows(name: &str) -> bool {
    name.ends_with(".d.ts") || name.ends_with(".pyi") || SHADOWS.contains(&name)
}

/// Run at start-up, on entering a directory, or by an agent that opens the repository.
const RUN_NAMES: [&str; 7] = [
    "sitecustomize.py",
    "usercustomize.py",
    ".envrc",
    ".mcp.json",
    ".pre-commit-config.yaml",
    ".pnp.cjs",
    "build.rs",
];

const RUN_DIRECTORIES: [&str; 6] =
    [".husky", ".githooks", ".vscode", ".devcontainer", ".claude", ".idea"];

/// Modules whose name would be found before the installed one.
const SHADOWS: [&str; 6] =
    ["pytest.py", "mypy.py", "unittest.py", "typing.py", "tox.py", "pyright.py"];

const DIRECTORIES: [&str; 6] =
    [".github", ".circleci", ".cargo", ".gitlab", ".buildkite", ".config"];

const NAMES: [&str; 48] = [
    ".coveragerc",
    ".gitlab-ci.yml",
    ".npmrc",
    ".travis.yml",
    ".yarnrc",
    ".yarnrc.yml",
    "agents.md",
    "azure-pipelines.yml",
    "bunfig.toml",
    "cargo.lock",
    "cargo.toml",
    "claude.md",
    "clippy.toml",
    "cmakelists.txt",
    "conftest.py",
    "deno.json",
    "dockerfile",
    "go.mod",
    "go.sum",
    "go.work",
    "gnumakefile",
    "jenkinsfile",
    "jsconfig.json",
    "justfile",
    "lefthook.yml",
    "lerna.json",
    "makefile",
    "meson.build",
    "mypy.ini",
    ".mypy.ini",
    "noxfile.py",
    "nx.json",
    "package-lock.json",
    "package.json",
    "pnpm-lock.yaml",
    "pnpm-workspace.yaml",
    "pom.xml",
    "pyproject.toml",
    "pyrightconfig.json",
    "pytest.ini",
    "rust-toolchain",
    "rust-toolchain.toml",
    "setup.cfg",
    "setup.py",
    "tox.ini",
    "turbo.json",
    "uv.lock",
    "yarn.lock",
];

/// Names that go on with a variant: `tsconfig.build.json`, `jest.config.ts`, ….
const STEMS: [&str; 12] = [
    ".eslintrc",
    "babel.config.",
    "build.gradle",
    "eslint.config.",
    "jest.config.",
    "karma.conf.",
    "settings.gradle",
    "tsconfig.",
    "vite.config.",
    "vitest.config.",
    "webpack.config.",
    ".mocharc",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gate_files_are_known_at_any_depth_and_case() {
        for (path, what) in [
            ("bakeoff.toml", GateFile::Engine),
            ("web/tsconfig.build.json", GateFile::Configures),
            ("rs/Cargo.toml", GateFile::Configures),
            (".github/workflows/ci.yml", GateFile::Configures),
            ("GNUmakefile", GateFile::Configures),
            ("x.pth", GateFile::RunsOnItsOwn),
            (".husky/pre-commit", GateFile::RunsOnItsOwn),
            ("node_modules/.bin/tsc", GateFile::Shadows),
            ("src/math.d.ts", GateFile::Shadows),
            ("pytest.py", GateFile::Shadows),
        ] {
            assert_eq!(gate_file(path.as_bytes()), Some(what), "{path}");
        }
        for path in ["src/main.rs", "docs/README.md", "package.json.md", "build.py"] {
            assert_eq!(gate_file(path.as_bytes()), None, "{path}");
        }
    }
}
