# Prints "name<TAB>version" for each tool that is there and "name<TAB>" for each that is not, then
# "<TAB>package<TAB>version" for each Python package that is installed, with "<TAB>here" where it is the repository.
# Runs in a sandbox, before any agent does. Bash only.
version() { # the first thing in a command's output that looks like a version
    timeout 10 "$@" 2>&1 </dev/null | head -n 5 | { [[ "$(cat)" =~ [0-9]+(\.[0-9]+)+ ]] && printf '%s' "${BASH_REMATCH[0]}"; }
}
tell() { # name, then its version command
    local name=$1 found
    shift
    if command -v "$name" >/dev/null 2>&1; then
        found=$(version "$@")
        printf '%s\t%s\n' "$name" "${found:-yes}"
    else
        printf '%s\t\n' "$name"
    fi
}
sh=$(readlink -f "$(command -v sh)")
printf 'bash\t%s (sh is %s)\n' "${BASH_VERSION%%(*}" "${sh##*/}"
printf 'locale\t%s\n' "${LC_ALL:-${LC_CTYPE:-${LANG:-C}}}"
[[ -d /node_modules ]] && printf 'packages in /node_modules\tyes\n'
tell git git --version
tell rg rg --version
for name in python python3 node npm ruby perl php java gcc clang rustc cargo make cmake; do tell "$name" "$name" --version; done
tell go go version
for name in mvn gradle; do command -v "$name" >/dev/null 2>&1 && tell "$name" "$name" --version; done
for python in python python3; do
    if command -v "$python" >/dev/null 2>&1; then
        found=$(timeout 20 "$python" -c 'import pytest; print(pytest.__version__)' 2>/dev/null </dev/null)
        printf '%s\t%s\n' "pytest (for $python)" "$found"
        break
    fi
done
packages='
from importlib.metadata import distributions
from importlib.util import find_spec
for package in distributions():
    name = package.metadata["Name"]
    try:
        # Of a package at the top, nothing is run to find it.
        here = str(find_spec(name.replace("-", "_").lower()).origin).startswith("/workspace/")
    except Exception:
        here = False
    print("", name, package.version, *["here"] * here, sep="\t")'
for python in python python3; do
    # Isolated: what the repository holds is not imported.
    command -v "$python" >/dev/null 2>&1 && timeout 20 "$python" -I -c "$packages" 2>/dev/null </dev/null && break
done
for name in patch diff; do command -v "$name" >/dev/null 2>&1 && printf '%s\tyes\n' "$name" || printf '%s\t\n' "$name"; done
true
