//! Toolchains inside jobs: real compilers, offline, with private homes.

use std::path::{Path, PathBuf};

use bakeoff::sandbox::toolchain::{self, Toolchains};
use bakeoff::sandbox::{JobSpec, Mount};

use super::stage::*;

/// The tools of whoever runs the tests.
pub fn tools() -> Toolchains {
    let path = std::env::var_os("PATH").unwrap();
    toolchain::discover(&path, &home())
}

fn home() -> PathBuf {
    std::env::var_os("HOME").unwrap().into()
}

pub fn with_tools(tools: &Toolchains, mut spec: JobSpec) -> JobSpec {
    spec.env = tools.env.clone();
    spec.mounts.extend(tools.mounts.clone());
    spec
}

/// A crate that depends on one that the product has itself, so that it has been downloaded.
fn tiny_crate(dir: &Path) {
    let lock = include_str!("../../../Cargo.lock");
    let version = lock.split("name = \"fastrand\"\nversion = \"").nth(1).unwrap();
    let version = version.split('"').next().unwrap();
    let manifest = format!(
        "[package]\nname = \"tiny\"\nversion = \"0.0.0\"\nedition = \"2021\"\n[dependencies]\nfastrand = \"={version}\"\n"
    );
    std::fs::create_dir(dir.join("src")).unwrap();
    std::fs::write(dir.join("Cargo.toml"), manifest).unwrap();
    std::fs::write(dir.join("src/lib.rs"), "pub fn f() -> u8 { fastrand::u8(..) }\n").unwrap();
}

#[test]
fn cargo_checks_a_crate_with_a_dependency_offline() {
    for system in [System::Here, System::NoNamespaces, System::Nothing] {
        on(system, || async {
            let tools = tools();
            assert!(tools.found.iter().any(|(name, _)| name == "cargo"), "{tools:?}");
            let dir = folder();
            tiny_crate(dir.path());
            let mut spec = with_tools(
                &tools,
                sh("cargo check --offline && cargo --version && rustc --version"),
            );
            spec.mounts.push(shared(dir.path()));
            spec.cwd = dir.path().into();
            let text = output(&launcher().await, spec).await;
            assert!(text.contains("Finished"), "{text}");
        });
    }
}

#[test]
fn an_error_of_the_compiler_is_the_jobs_own_failure() {
    on(System::Here, || async {
        let dir = folder();
        tiny_crate(dir.path());
        std::fs::write(dir.path().join("src/lib.rs"), "pub fn f() -> u8 { \"no\" }\n").unwrap();
        let mut spec = with_tools(&tools(), sh("cargo check --offline"));
        spec.mounts.push(shared(dir.path()));
        spec.cwd = dir.path().into();
        let exit = run(&launcher().await, spec).await.unwrap();
        let text = String::from_utf8_lossy(&exit.output).into_owned();
        assert_eq!(exit.status, bakeoff::sandbox::JobStatus::Exited(101), "{text}");
        assert!(text.contains("E0308"), "{text}");
    });
}

#[test]
fn the_cargo_home_is_private_and_its_sources_can_not_be_changed() {
    on(System::Here, || async {
        let tools = tools();
        let script = "cd $CARGO_HOME; ls -A; touch here && echo private; \
                      touch registry/src/*/x 2>/dev/null || echo kept; echo $HOME; ls -A $HOME; env | grep -c TOKEN";
        let exit = run(&launcher().await, with_tools(&tools, sh(script))).await.unwrap();
        let text = String::from_utf8_lossy(&exit.output).into_owned();
        assert!(text.contains("private\nkept\n"), "{text}");
        assert!(!text.contains("credentials"), "{text}");
        assert!(!home().join(".cargo/here").exists());
        assert!(text.ends_with("\n0\n"), "{text}");
    });
}

#[test]
fn the_other_tools_that_are_installed_start() {
    on(System::Here, || async {
        let tools = tools();
        let launcher = launcher().await;
        for (name, program) in &tools.found {
            let flag = if name == "go" { "version" } else { "--version" };
            let exit =
                run(&launcher, with_tools(&tools, sh(&format!("{name} {flag}")))).await.unwrap();
            let text = String::from_utf8_lossy(&exit.output).into_owned();
            assert_eq!(
                exit.status,
                bakeoff::sandbox::JobStatus::Exited(0),
                "{name} at {}: {text}",
                program.display()
            );
        }
    });
}

#[test]
fn nothing_of_the_home_directory_but_tools_is_shown() {
    let allowed = [".cargo", ".rustup", ".pyenv", ".nvm", ".local/share/uv/python", "go/pkg/mod"];
    for mount in tools().mounts {
        if let Mount::ReadOnly { from, .. } = mount
            && let Ok(inside) = from.strip_prefix(home())
        {
            let known = allowed.iter().any(|dir| inside.starts_with(dir)) || from.is_file();
            assert!(known, "{} is shown", from.display());
            assert!(!inside.to_string_lossy().contains("credentials"));
        }
    }
}
