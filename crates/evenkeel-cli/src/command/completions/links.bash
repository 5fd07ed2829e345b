
# Prints the names of network interfaces, each behind $1; behind tap: those of TAP devices.
_evenkeel_links() {
    local name rest
    while IFS=: read -r name rest; do
        name="${name// /}"
        if [[ -n "${rest}" && ( "$1" != tap: || -e "/sys/class/net/${name}/tun_flags" ) ]]; then
            printf '%s ' "$1${name}"
        fi
    done < /proc/net/dev
}

# Completes a word with colons as a whole. COMP_WORDBREAKS splits it, and what is behind the last colon is
# what bash replaces.
_evenkeel_whole() {
    local line="${COMP_LINE:0:COMP_POINT}"
    local -a COMP_WORDS
    read -r -a COMP_WORDS <<< "${line}"
    if [[ "${line}" == *[[:space:]] ]]; then
        COMP_WORDS+=("")
    fi
    local COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
    local word="${COMP_WORDS[COMP_CWORD]}"
    _evenkeel "$1" "${word}" "${COMP_WORDS[COMP_CWORD - 1]}"
    if [[ "${word}" == *:* && "${COMP_WORDBREAKS}" == *:* ]]; then
        local reply
        local -a replies=("${COMPREPLY[@]#"${word%:*}:"}")
        COMPREPLY=()
        for reply in "${replies[@]}"; do
            if [[ -n "${reply}" ]]; then
                COMPREPLY+=("${reply}")
            fi
        done
    fi
    if [[ "${#COMPREPLY[@]}" -eq 1 && "${COMPREPLY[0]}" == *: ]]; then
        compopt -o nospace 2> /dev/null
    fi
}
