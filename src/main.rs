//! The thin binary: everything lives in the library.

use std::process::ExitCode;

use bakeoff::{cli, sandbox};

fn main() -> ExitCode {
    if sandbox::is_warden_call(std::env::args_os().nth(1).as_deref()) {
        return sandbox::warden_main();
    }
    cli::main()
}
