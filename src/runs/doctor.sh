# Prints "name<TAB>value" for what confines a command. Runs in a sandbox of the doctor. Bash only, since an
# image may have nothing else.
while IFS=$':\t ' read -r name value _; do
    case $name in
        CapEff | NoNewPrivs | Seccomp | Seccomp_filters) printf '%s\t%s\n' "$name" "$value" ;;
    esac
done </proc/self/status
printf 'uid\t%s\n' "$EUID"
others=
while IFS=': ' read -r name _; do
    [[ $name == Inter-* || $name == face* || $name == lo || -z $name ]] || others+="$name "
done </proc/net/dev
printf 'interfaces\t%s\n' "$others"
for place in / /etc /usr; do
    if { : >"$place/.acquire-doctor"; } 2>/dev/null; then printf 'writable\t%s\n' "$place"; fi
done
# Twice the workspace's size, in pieces, until one is refused.
piece=$(printf '%1048576s' '')
written=0
{
    while ((written < 128)) && printf '%s' "$piece"; do written=$((written + 1)); done
} >/workspace/.acquire-doctor 2>/dev/null
printf 'written\t%s\n' "$written"
rm -f /workspace/.acquire-doctor 2>/dev/null || : >/workspace/.acquire-doctor
