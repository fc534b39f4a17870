# SPDX-License-Identifier: MIT OR Apache-2.0
# Completes the command lines of lend and lend-run in fish, by what their help says.

function __lend_commands
    lend help 2>/dev/null | sed -n 's/^  \([a-z]\{1,\}\)  *\(.*\)/\1\t\2/p'
end

function __lend_options
    $argv --help 2>/dev/null | grep -oE '^  (-[a-zA-Z], )?--[a-z-]+' | grep -oE -- '--?[a-zA-Z-]+'
end

function __lend_command
    set -l words (commandline -opc)
    echo $words[2]
end

complete -c lend -f -n 'test (count (commandline -opc)) -eq 1' -a '(__lend_commands)'
complete -c lend -n 'string match -q -- "-*" (commandline -ct)' -a '(__lend_options lend (__lend_command))'
complete -c lend -f -n 'test (__lend_command) = explain' -a "(lend explain 2>/dev/null | sed 's/^[A-Z].*: //' | string split -n ' ' | string replace -r '^[0-9]*=' '')"
complete -c lend -f -n 'test (__lend_command) = help' -a '(__lend_commands)'
complete -c lend -n 'test (__lend_command) = bench' -a 'lat bw send write read'
complete -c lend -n 'test (__lend_command) = run' -a '(__fish_complete_command)'
complete -c lend-run -n 'string match -q -- "-*" (commandline -ct)' -a '(__lend_options lend-run)'
complete -c lend-run -a '(__fish_complete_command)'
