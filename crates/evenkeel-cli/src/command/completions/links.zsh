# Adds the words given, with the names of network interfaces behind packet:, xdp: and any, and in place of interfaces.
_evenkeel_links() {
    local -a names links
    local word
    names=(${${(M)${(f)"$(< /proc/net/dev)"}:#*:*}%%:*})
    names=(${names// /})
    for word in "$@"; do
        if [[ $word == interfaces ]]; then
            links+=($names)
            continue
        fi
        links+=("$word")
        case $word in
            packet:|xdp:) links+=($word$^names) ;;
            any) links+=($names) ;;
        esac
    done
    compadd -S '' -a links
}

