use std::process::ExitCode;

fn main() -> ExitCode {
    // A sandbox is launched by this same program, started anew.
    if let Some(code) = acquire::sandbox::namespaces::launched() {
        return code;
    }
    ExitCode::SUCCESS
}
