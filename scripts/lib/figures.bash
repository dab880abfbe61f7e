# What scripts/bench and scripts/prove share. Sourced after they have set `program` and `figures`, the names
# that they know, and defined `usage` and, for each name, NAME_figures that prints its rows.

source scripts/lib/set-up.bash

# Sets `chosen` to the names that were asked for, or all of them.
choose() {
    chosen=()
    local name
    for name; do
        case $name in
            -h | --help) usage; exit 0 ;;
            -*) say "unknown option '$name'; see --help" >&2; exit 2 ;;
        esac
        [[ " ${figures[*]} " == *" $name "* ]] ||
            { say "there is no figure '$name', only: ${figures[*]}" >&2; exit 2; }
        chosen+=("$name")
    done
    ((${#chosen[@]})) || chosen=("${figures[@]}")
}

# Everything but rows goes to stderr.
set_up() {
    exec {rows}>&1 1>&2 </dev/null
    # No figure may depend on the settings of whoever asks.
    local name
    for name in "${!ACQUIRE_@}"; do unset "$name"; done
    mkdir -p "$tools"
    step "packages" install_packages
    step "Rust" find_rust
    step "Docker engine" start_engine
    engine_answers || fail "no Docker engine answers, and these figures need one"
    step "sandbox image" make_image
}

# measure NAME: passes its rows on, and remembers what misses its target or went wrong.
measure() {
    local found row ended=0 number=${#missed[@]}
    say "measuring $1"
    found=$("$1_figures") || ended=$?
    while read -r row; do
        [[ -z $row ]] || printf '%s\n' "$row" >&"$rows"
        [[ $row != *'"ok":false'* ]] || missed+=("$row")
    done <<<"$found"
    # A missed target also ends it with an error; its row tells more.
    ((ended == 0 || ${#missed[@]} > number)) || missed+=("$1 ended with $ended")
    [[ -n $found ]] || missed+=("$1 printed no row")
}

measure_all() {
    missed=()
    local name
    for name in "${chosen[@]}"; do measure "$name"; done
    for name in "${missed[@]}"; do say "MISSED: $name"; done
    ((${#missed[@]} == 0))
}

# run_bench NAME [ARGUMENT…]: builds and runs a target of benches/ as it is shipped, optimised.
run_bench() {
    local name=$1
    shift
    cargo bench --quiet --locked --bench "$name" -- "$@"
}

# venv NAME REQUIREMENT…: a virtual environment below target/ that has these; prints its python.
venv() {
    local folder=$tools/$1
    shift
    [[ -x $folder/bin/python ]] || python3 -m venv "$folder" >&2 || { rm -rf "$folder"; return 1; }
    "$folder/bin/python" -m pip --quiet --disable-pip-version-check install "$@" >&2 || return 1
    printf '%s\n' "$folder/bin/python"
}
