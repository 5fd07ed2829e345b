# Adds the words given, with the names of network interfaces behind packet:, xdp: and any.
_evenkeel_links() {
    local -a names links
    local word
    names=(${${(M)${(f)"$(< /proc/net/dev)"}:#*:*}%%:*})
    names=(${names// /})
    for word in "$@"; do
        links+=("$word")
        case $word in
            packet:|xdp:) links+=($word$^names) ;;
            any) links+=($names) ;;
        esac
    done
    compadd -S '' -a links
}

