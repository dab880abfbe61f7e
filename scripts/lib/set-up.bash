# Sets up what builds, tests and figures need. Sourced by scripts/test, scripts/bench and scripts/prove,
# which set `program`, the name that messages begin with. Every step leaves alone what is there already.

tools=$PWD/target/tools
# Own tools come last: what the machine has goes before them.
export PATH=$PATH:$tools/bin:$tools/venv/bin

as_root=false
((EUID == 0)) && as_root=true

say() { printf '%s: %s\n' "$program" "$*"; }
fail() { say "$*"; exit 1; }
has() { command -v "$1" >/dev/null; }

# step NAME COMMAND…: runs the command with its time. Ends everything when it fails.
step() {
    local name=$1 start=$SECONDS
    shift
    printf '\n== %s\n' "$name"
    "$@" || fail "$name failed after $((SECONDS - start)) s"
    printf '== %s: %d s\n' "$name" $((SECONDS - start))
}

# Debian packages for the commands that builds and tests need.
install_packages() {
    local missing=()
    has cc || missing+=(build-essential)
    has git || missing+=(git)
    has patch || missing+=(patch)
    [[ -e /etc/ssl/certs/ca-certificates.crt ]] || missing+=(ca-certificates)
    has python3 || missing+=(python3)
    python3 -c 'import ensurepip' 2>/dev/null || missing+=(python3-venv)
    if ! { has docker && has dockerd; }; then missing+=(docker.io); fi
    has iptables || missing+=(iptables)
    ((${#missing[@]})) || { say "all there"; return; }
    $as_root || { say "missing: ${missing[*]}; only root can install them"; return; }
    has apt-get || { say "missing: ${missing[*]}; this is no Debian, so install them by hand"; return 1; }
    say "installing ${missing[*]}"
    local apt=(apt-get --quiet --quiet --option DPkg::Lock::Timeout=300 --option Dpkg::Use-Pty=0)
    "${apt[@]}" update &&
        DEBIAN_FRONTEND=noninteractive "${apt[@]}" install --yes --no-install-recommends "${missing[@]}"
}

# Rust is found where rustup put it for this user, even with another HOME.
find_rust() {
    local home
    home=$(getent passwd "$EUID" | cut -d: -f6)
    has cargo || export PATH=$PATH:$home/.cargo/bin
    has cargo || { say "cargo is missing; install Rust by https://rustup.rs"; return 1; }
    if ! cargo --version >/dev/null 2>&1 && [[ -d $home/.rustup ]]; then
        export RUSTUP_HOME=$home/.rustup
        say "taking the toolchain from $RUSTUP_HOME"
    fi
    cargo --version
}

engine_answers() { has docker && docker version >/dev/null 2>&1; }

# wait_for_engine SECONDS [PROCESS]: gives up early when the process has ended.
wait_for_engine() {
    local deadline=$((SECONDS + $1))
    until engine_answers; do
        ((SECONDS < deadline)) || return 1
        [[ -z ${2-} ]] || kill -0 "$2" 2>/dev/null || return 1
        sleep 0.5
    done
}

start_engine() {
    engine_answers && { say "an engine answers"; return; }
    if ! $as_root; then
        say "no engine answers, and only root can start one"
        return
    fi
    # Where a service manager runs, the package has started it.
    if [[ -d /run/systemd/system ]]; then
        systemctl start docker && wait_for_engine 60 && return
    fi
    mkdir -p "$tools"
    setsid dockerd >"$tools/dockerd.log" 2>&1 &
    local engine=$!
    if wait_for_engine 90 "$engine"; then
        say "started dockerd (process $engine), which is left running"
    else
        tail -n 20 "$tools/dockerd.log"
        say "dockerd does not answer; its log is $tools/dockerd.log"
        return 1
    fi
}

make_image() {
    engine_answers || { say "no engine, no image"; return; }
    scripts/sandbox-image
}
