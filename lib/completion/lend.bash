# SPDX-License-Identifier: MIT OR Apache-2.0
# Completes the command lines of lend and lend-run in bash, by what their help says.

_lend_options() { "$@" --help 2>/dev/null | grep -oE '^  (-[a-zA-Z], )?--[a-z-]+' | grep -oE -- '--?[a-zA-Z-]+'; }

_lend() {
  local word=${COMP_WORDS[COMP_CWORD]} command=${COMP_WORDS[1]} words=
  if ((COMP_CWORD == 1)); then
    words="$(lend help 2>/dev/null | sed -n 's/^  \([a-z]\{1,\}\) .*/\1/p') --help --version"
  elif [[ $word == -* ]]; then
    words=$(_lend_options lend "$command")
  elif [[ $command == explain ]]; then
    words=$(lend explain 2>/dev/null | sed 's/^[A-Z].*: //; s/[0-9]*=/ /g')
  elif [[ $command == help ]]; then
    words=$(lend help 2>/dev/null | sed -n 's/^  \([a-z]\{1,\}\) .*/\1/p')
  elif [[ $command == bench ]]; then
    words="lat bw send write read"
  elif [[ $command == run ]]; then
    COMPREPLY=($(compgen -c -- "$word"))
    return
  fi
  COMPREPLY=($(compgen -W "$words" -- "$word"))
}

_lend_run() {
  local word=${COMP_WORDS[COMP_CWORD]}
  if [[ $word == -* ]]; then
    COMPREPLY=($(compgen -W "$(_lend_options lend-run)" -- "$word"))
  else
    COMPREPLY=($(compgen -c -- "$word"))
  fi
}

complete -o default -F _lend lend
complete -o default -F _lend_run lend-run
