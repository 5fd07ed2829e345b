# Adds the words given, with the names of network interfaces behind packet: and any.
_evenkeel_links() {
    local -a names links
    local word
    names=(${${(M)${(f)"$(< /proc/net/dev)"}:#*:*}%%:*})
    names=(${names// /})
    for word in "$@"; do
        links+=("$word")
        case $word in
            packet:) links+=(packet:$^names) ;;
            any) links+=($names) ;;
        esac
    done
    compadd -S '' -a links
}

