# SPDX-License-Identifier: LGPL-2.1-or-later
# Completion for bash. Options, and the words that some of them take, come from the help of the command itself.
_ortrain () {
  local word=${COMP_WORDS[COMP_CWORD]} command=${COMP_WORDS[1]} before=${COMP_WORDS[COMP_CWORD - 1]} words
  COMPREPLY=()
  if [ "$COMP_CWORD" -eq 1 ]; then
    words="$(ortrain --help 2>/dev/null | sed -nE 's/^  ([a-z]+) .*/\1/p') --help --version"
  elif [[ $word == -* ]]; then
    words="$(ortrain "$command" --help 2>/dev/null | sed -nE 's/^  (-., )?(--[a-z-]+).*/\2/p')"
  elif [[ $before == --* ]]; then
    # "--optimizer=NAME   sgd, momentum, adam (adam)" is a choice
    words="$(ortrain "$command" --help 2>/dev/null |
      sed -nE "s/^  (-., )?$before=[A-Z]+ +([a-z0-9-]+(, [a-z0-9-]+)+) \([a-z0-9-]+\)\$/\2/p" | tr -d ,)"
  elif [ "$command" = new ] && [ "$COMP_CWORD" -eq 2 ]; then
    words="cnn mlp"
  fi
  if [ -n "$words" ]; then
    mapfile -t COMPREPLY < <(compgen -W "$words" -- "$word")
  else
    mapfile -t COMPREPLY < <(compgen -f -- "$word")
  fi
}
complete -o filenames -F _ortrain ortrain
