
# Prints the names of network interfaces, each behind the word given.
function __evenkeel_links
    for line in (string match -e ':' < /proc/net/dev)
        set -l name (string trim (string split -f 1 ':' $line))
        echo "$argv[1]$name"
    end
end
