# SPDX-License-Identifier: LGPL-2.1-or-later
# Completion for bash.
_ortrain () {
  local word=${COMP_WORDS[COMP_CWORD]} command=${COMP_WORDS[1]}
  if [ "$COMP_CWORD" -eq 1 ]; then
    mapfile -t COMPREPLY < <(compgen -W "check info new train eval run export verify plan bench devices --help --version" -- "$word")
  elif [[ $word == -* ]]; then
    local options
    options=$(ortrain "$command" --help 2>/dev/null | grep -oE -- '--[a-z-]+' | sort -u)
    mapfile -t COMPREPLY < <(compgen -W "$options" -- "$word")
  else
    mapfile -t COMPREPLY < <(compgen -f -- "$word")
  fi
}
complete -o filenames -F _ortrain ortrain
