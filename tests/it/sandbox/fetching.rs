//! Dependencies that a setup with a network fetches, each with the real tool: afterwards they are there
//! without a network, and can't be changed. And what is never shown: anybody's credentials.

use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::Command;

use bakeoff::sandbox::toolchain::{self, Toolchains};
use bakeoff::sandbox::{JobSpec, Launcher, Mount, Network};

use super::stage::*;
use super::tools::{tools, with_tools};

/// With a sandbox of either kind; an ordinary user does not have the tools of whoever runs the tests.
const SYSTEMS: [System; 2] = [System::Here, System::NoNamespaces];

/// A workspace, caches of the engine, and what stands for the network: gone after setup.
struct Yard {
    dir: tempfile::TempDir,
}

impl Yard {
    fn new() -> Self {
        let dir = folder();
        for name in ["work", "caches", "source"] {
            std::fs::create_dir(dir.path().join(name)).unwrap();
        }
        Self { dir }
    }

    fn at(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn write(&self, name: &str, text: &str) {
        let path = self.at(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }

    /// Runs a command of the host that the test needs.
    fn host(&self, argv: &[&str], dir: &str) -> String {
        let output = Command::new(argv[0])
            .args(&argv[1..])
            .current_dir(self.at(dir))
            .env("GIT_CONFIG_GLOBAL", "/dev/null")
            .output()
            .unwrap();
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{argv:?}: {text}");
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
    }

    fn job(&self, tools: &Toolchains, script: &str) -> JobSpec {
        let mut spec = with_tools(tools, sh(script));
        spec.mounts.push(shared(&self.at("work")));
        spec.cwd = self.at("work");
        with_env(spec, "SOURCE", self.at("source"))
    }

    async fn setup(&self, launcher: &Launcher, script: &str) {
        let tools = tools().filling(&self.at("caches")).unwrap();
        let mut spec = self.job(&tools, script);
        spec.network = Network::Host;
        let source = self.at("source");
        spec.mounts.push(Mount::ReadOnly { from: source.clone(), at: source.clone() });
        output(launcher, spec).await;
        std::fs::remove_dir_all(source).unwrap();
    }

    async fn gate(&self, launcher: &Launcher, script: &str) -> String {
        let tools = tools().after_filling(&self.at("caches"));
        output(launcher, self.job(&tools, script)).await
    }
}

#[test]
fn cargo_finds_what_setup_fetched() {
    for system in SYSTEMS {
        on(system, || async {
            let yard = Yard::new();
            let manifest = |name: &str| {
                format!("[package]\nname = \"{name}\"\nversion = \"1.0.0\"\nedition = \"2021\"\n")
            };
            yard.write("source/dep/Cargo.toml", &manifest("dep"));
            yard.write("source/dep/src/lib.rs", "pub fn one() -> u8 { 1 }\n");
            for argv in [
                &["git", "init", "-q", "."][..],
                &["git", "add", "-A"],
                &["git", "-c", "user.name=a", "-c", "user.email=a@b", "commit", "-qm", "dep"],
            ] {
                yard.host(argv, "source/dep");
            }
            let dep = format!(
                "[dependencies]\ndep = {{ git = \"file://{}\" }}\n",
                yard.at("source/dep").display()
            );
            yard.write("work/Cargo.toml", &(manifest("work") + &dep));
            yard.write("work/src/lib.rs", "pub fn f() -> u8 { dep::one() }\n");
            let launcher = launcher().await;
            yard.setup(&launcher, "cargo fetch").await;
            let script = "cargo check 2>&1; ls -A $CARGO_HOME; touch $CARGO_HOME/git/x 2>/dev/null || echo kept";
            let text = yard.gate(&launcher, script).await;
            assert!(text.contains("Finished") && text.contains("kept"), "{text}");
        });
    }
}

/// Gives one file to everybody who asks for anything.
fn serve(file: Vec<u8>) -> u16 {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for client in listener.incoming().map_while(Result::ok) {
            let mut client = client;
            let mut request = [0; 4096];
            let _ = client.read(&mut request);
            let head = format!(
                "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: {}\r\n\r\n",
                file.len()
            );
            let _ = client.write_all(head.as_bytes()).and_then(|()| client.write_all(&file));
        }
    });
    port
}

#[test]
fn npm_finds_what_setup_fetched() {
    if !has("npm") || !has("node") {
        return;
    }
    for system in SYSTEMS {
        on(system, || async {
            let yard = Yard::new();
            yard.write(
                "source/package/package.json",
                r#"{"name":"dep","version":"1.0.0","main":"i.js"}"#,
            );
            yard.write("source/package/i.js", "module.exports = 'works';\n");
            yard.host(&["tar", "czf", "dep.tgz", "package"], "source");
            let hash = "const c=require('crypto'),f=require('fs');console.log('sha512-'+c.createHash('sha512').update(f.readFileSync('dep.tgz')).digest('base64'))";
            let integrity = yard.host(&["node", "-e", hash], "source");
            let port = serve(std::fs::read(yard.at("source/dep.tgz")).unwrap());
            yard.write(
                "work/package.json",
                r#"{"name":"work","version":"1.0.0","dependencies":{"dep":"1.0.0"}}"#,
            );
            yard.write("work/package-lock.json", &format!(
                r#"{{"name":"work","version":"1.0.0","lockfileVersion":3,"requires":true,"packages":{{
                "":{{"name":"work","version":"1.0.0","dependencies":{{"dep":"1.0.0"}}}},
                "node_modules/dep":{{"version":"1.0.0","resolved":"http://127.0.0.1:{port}/dep-1.0.0.tgz","integrity":"{integrity}"}}}}}}"#
            ));
            let launcher = launcher().await;
            yard.setup(&launcher, "npm ci 2>&1").await;
            let script = "rm -rf node_modules; npm ci 2>&1; node -p \"require('dep')\"; \
                          touch ~/.npm/_cacache/content-v2/x 2>/dev/null || echo kept";
            let text = yard.gate(&launcher, script).await;
            assert!(text.contains("works") && text.contains("kept"), "{text}");
        });
    }
}

#[test]
fn pip_finds_what_setup_fetched_and_a_virtual_environment_works() {
    if !has("python3") {
        return;
    }
    for system in SYSTEMS {
        on(system, || async {
            let yard = Yard::new();
            let wheel = "import zipfile\n\
                with zipfile.ZipFile('dep-1.0-py3-none-any.whl','w') as z:\n \
                z.writestr('dep.py','word=\"works\"\\n')\n \
                z.writestr('dep-1.0.dist-info/METADATA','Metadata-Version: 2.1\\nName: dep\\nVersion: 1.0\\n')\n \
                z.writestr('dep-1.0.dist-info/WHEEL','Wheel-Version: 1.0\\nGenerator: t\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n')\n \
                z.writestr('dep-1.0.dist-info/RECORD','')\n";
            yard.host(&["python3", "-c", wheel], "source");
            let launcher = launcher().await;
            let setup = "python3 -m venv .venv 2>&1 || .venv/bin/python -m ensurepip 2>&1; .venv/bin/pip download --no-index --find-links $SOURCE -d $PIP_FIND_LINKS dep 2>&1";
            yard.setup(&launcher, setup).await;
            let script = ".venv/bin/pip install dep 2>&1; .venv/bin/python -c 'import dep; print(dep.word)'; \
                          touch $PIP_FIND_LINKS/x 2>/dev/null || echo kept";
            let text = yard.gate(&launcher, script).await;
            assert!(text.contains("works\n") && text.contains("kept"), "{text}");
        });
    }
}

#[test]
fn go_finds_what_setup_fetched() {
    if !has("go") || !has("python3") {
        return;
    }
    for system in SYSTEMS {
        on(system, || async {
            let yard = Yard::new();
            let proxy = "import zipfile,os\n\
                d='localhost.test/dep/@v'; os.makedirs(d); m='module localhost.test/dep\\n\\ngo 1.19\\n'\n\
                open(d+'/list','w').write('v1.0.0\\n'); open(d+'/v1.0.0.mod','w').write(m)\n\
                open(d+'/v1.0.0.info','w').write('{\"Version\":\"v1.0.0\",\"Time\":\"2026-01-01T00:00:00Z\"}')\n\
                z=zipfile.ZipFile(d+'/v1.0.0.zip','w'); p='localhost.test/dep@v1.0.0/'\n\
                z.writestr(p+'go.mod',m); z.writestr(p+'dep.go','package dep\\n\\nconst Word = \"works\"\\n'); z.close()\n";
            yard.host(&["python3", "-c", proxy], "source");
            yard.write(
                "work/go.mod",
                "module localhost.test/work\n\ngo 1.19\n\nrequire localhost.test/dep v1.0.0\n",
            );
            yard.write("work/main.go", "package main\n\nimport (\n\t\"fmt\"\n\t\"localhost.test/dep\"\n)\n\nfunc main() { fmt.Println(dep.Word) }\n");
            let launcher = launcher().await;
            yard.setup(&launcher, "GOSUMDB=off GOPROXY=file://$SOURCE go mod tidy 2>&1").await;
            let script = "go run . 2>&1; touch $GOMODCACHE/x 2>/dev/null || echo kept";
            let text = yard.gate(&launcher, script).await;
            assert!(text.contains("works") && text.contains("kept"), "{text}");
        });
    }
}

/// What may hold a token or a password, in a home directory.
const CREDENTIALS: [&str; 18] = [
    ".cargo/credentials.toml",
    ".cargo/credentials",
    ".cargo/config.toml",
    ".npmrc",
    ".yarnrc.yml",
    ".netrc",
    ".pypirc",
    ".pip/pip.conf",
    ".config/pip/pip.conf",
    ".config/uv/uv.toml",
    ".config/gh/hosts.yml",
    ".config/go/env",
    ".git-credentials",
    ".gitconfig",
    ".docker/config.json",
    ".aws/credentials",
    ".ssh/id_ed25519",
    ".config/bakeoff/config.toml",
];

#[test]
fn nobodys_credentials_are_shown_to_setup_or_to_gates() {
    for system in
        [System::Here, System::Ordinary, System::NoNamespaces, System::OrdinaryNoNamespaces]
    {
        on(system, || async {
            let yard = Yard::new();
            let secret = nonce();
            for name in CREDENTIALS {
                yard.write(&format!("home/{name}"), &format!("[registry]\ntoken = \"{secret}\"\n"));
            }
            for name in ["cargo", "rustc", "node", "npm", "python3", "go"] {
                let tool = format!("home/.cargo/bin/{name}");
                yard.write(&tool, "#!/bin/sh\n");
                std::fs::set_permissions(
                    yard.at(&tool),
                    std::os::unix::fs::PermissionsExt::from_mode(0o755),
                )
                .unwrap();
            }
            let home = yard.at("home");
            let found = toolchain::discover(home.join(".cargo/bin").as_os_str(), &home);
            assert!(found.found.len() >= 6, "{found:?}");
            let caches = yard.at("caches");
            let (filling, after) = (found.filling(&caches).unwrap(), found.after_filling(&caches));
            let launcher = launcher().await;
            let files: Vec<String> =
                CREDENTIALS.iter().map(|name| home.join(name).display().to_string()).collect();
            let script = format!(
                "cat {} 2>/dev/null; find $HOME $CARGO_HOME /home /root -type f -exec cat {{}} + 2>/dev/null; env; echo end",
                files.join(" ")
            );
            for tools in [&found, &filling, &after] {
                let text = output(&launcher, with_tools(tools, sh(&script))).await;
                assert!(text.ends_with("end\n") && !text.contains(&secret), "{text}");
            }
            // The attempt itself works.
            assert!(std::fs::read_to_string(Path::new(&files[0])).unwrap().contains(&secret));
        });
    }
}

#[test]
fn a_run_keeps_what_its_setup_fetched_and_its_gates_can_not_change_it() {
    let place = crate::support::place::Place::new();
    let diff = place.diff("good.diff", "2");
    let diff = diff.to_str().unwrap();
    place.configure(
        "[gates]\nsetup = \"echo fetched > $CARGO_HOME/registry/mark\"\nsetup_network = true\n\
         check = \"grep -q fetched $CARGO_HOME/registry/mark && ! echo x 2>/dev/null > $CARGO_HOME/registry/mark\"\n",
        "[judges]\nenabled = false\n[lanes.one]\nmodel = \"scripted:one\"\n",
    );
    // The second run does without setup, and finds what the first one fetched.
    for _ in 0..2 {
        place.run(["gate", diff]).exits(0);
    }
    // Without the network setup has the operator's own caches, which it can't change.
    let config = std::fs::read_to_string(place.dir.join("config/bakeoff/config.toml")).unwrap();
    place.config(&config.replace("setup_network = true\n", ""));
    place.run(["gate", diff]).exits(4);
}
