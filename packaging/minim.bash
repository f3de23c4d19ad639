# Completion of minim for bash, made from its option table (minim --generate bash).
_minim() {
  local current="${COMP_WORDS[COMP_CWORD]}" words=""
  case "${COMP_WORDS[COMP_CWORD-1]}" in
    --file) COMPREPLY=($(compgen -f -- "$current")); return ;;
    --batch) COMPREPLY=($(compgen -f -- "$current")); return ;;
    --output) COMPREPLY=($(compgen -f -- "$current")); return ;;
    --tokens-file) COMPREPLY=($(compgen -f -- "$current")); return ;;
    --template) COMPREPLY=($(compgen -f -- "$current")); return ;;
    --thinking) COMPREPLY=($(compgen -W "enabled disabled adaptive" -- "$current")); return ;;
    --effort) COMPREPLY=($(compgen -W "none minimal low medium high xhigh max" -- "$current")); return ;;
    --tools) COMPREPLY=($(compgen -f -- "$current")); return ;;
    --json-schema) COMPREPLY=($(compgen -f -- "$current")); return ;;
    --grammar) COMPREPLY=($(compgen -f -- "$current")); return ;;
    --model) COMPREPLY=($(compgen -d -- "$current")); return ;;
    --isa) COMPREPLY=($(compgen -W "scalar avx2 avx512 auto" -- "$current")); return ;;
    --kv-dtype) COMPREPLY=($(compgen -W "auto bf16 fp8_e4m3 nvfp4" -- "$current")); return ;;
    --index-dtype) COMPREPLY=($(compgen -W "auto bf16 fp8_e4m3 nvfp4" -- "$current")); return ;;
    --attention) COMPREPLY=($(compgen -W "direct gpu" -- "$current")); return ;;
    --numerics) COMPREPLY=($(compgen -W "exact fast reference" -- "$current")); return ;;
    --kv-disk) COMPREPLY=($(compgen -d -- "$current")); return ;;
    --config) COMPREPLY=($(compgen -f -- "$current")); return ;;
  esac
  case "${COMP_WORDS[1]}" in
    run) words="--help --file --batch --output --parallel --system --thinking --effort --thinking-budget --tools --json-schema --json-schema-text --json-object --regex --choice --grammar --tool-choice --raw --max-tokens --greedy --temperature --top-k --top-p --min-p --repetition-penalty --presence-penalty --frequency-penalty --seed --model --isa --threads --kv-dtype --index-dtype --attention --numerics --context --kv-cache-gb --kv-host-gb --kv-disk --kv-disk-gb --chunk --quiet --json --config" ;;
    score) words="--help --file --text --tokens --tokens-file --parse-special --top --trace --model --isa --threads --kv-dtype --index-dtype --attention --numerics --context --chunk --quiet --json --config" ;;
    tokenize) words="--help --file --text --parse-special --model --isa --threads --kv-dtype --index-dtype --attention --numerics --context --chunk --quiet --json --config" ;;
    detokenize) words="--help --file --tokens --model --isa --threads --kv-dtype --index-dtype --attention --numerics --context --chunk --quiet --json --config" ;;
    template) words="--help --file --template --model --isa --threads --kv-dtype --index-dtype --attention --numerics --context --chunk --quiet --json --config" ;;
    parse) words="--help --file --m3-ids --events --model --isa --threads --kv-dtype --index-dtype --attention --numerics --context --chunk --quiet --json --config" ;;
    grammar) words="--help --file --model --isa --threads --kv-dtype --index-dtype --attention --numerics --context --chunk --quiet --json --config" ;;
    doctor) words="--help --model --isa --threads --kv-dtype --index-dtype --attention --numerics --context --chunk --quiet --json --config" ;;
    *) words="run score tokenize detokenize template parse grammar doctor --help --version" ;;
  esac
  COMPREPLY=($(compgen -W "$words" -- "$current"))
}
complete -o default -F _minim minim
