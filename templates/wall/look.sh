# Checks the mounts of the inner sandbox, and then starts the program in it. For bash.
#
# Mounts are created by path. Code of another session in the same workspace can replace a folder by
# a link just before it is mounted, so that something else is shown, or shown elsewhere. So each
# mount must show what the host has at that very path, or hide it.
#
# Descriptor 7 lists the host's mounts: lines with a kind and a path, written as in a mount list. A
# device is its number and the type of its file system.

declare -A hosts=() devices=() hidden=() states=() named=() fresh=() links=() seen=()
empty=none spare=none
while IFS=' ' read -r kind path device root; do
  case $kind in
    host) hosts["$path $device $root"]=1 devices[$device]=1 ;;
    hidden) hidden[$path]=1 ;;
    state) states[$path]=1 ;; # the hidden paths that are ipybox's own
    named | outside) named[$path]=1 ;;
    fresh) fresh[$path]=1 ;;
    link) links[$path]=$device ;; # a named path and its target
    empty) empty=$path ;;         # hides folders of /proc
    spare) spare=$path ;;         # where srt creates what it hides paths with
  esac
done <&7
exec 7<&-

fail() {
  echo "The sandbox does not hold, nothing was started: $1. Where code changed the workspace's" \
    "files while the sandbox was made, try again" >&2
  exit 125
}

# device root path: whether the host has this at the path
is_host() {
  local above=$3 rest base
  while :; do
    rest=${3#"$above"}
    [[ $above != / ]] || rest=${3%/}
    base=${2%"$rest"}
    [[ $base$rest != "$2" || -z ${hosts["$above $1 ${base:-/}"]} ]] || return 0
    [[ $above != / ]] || return 1
    above=${above%/*}
    above=${above:-/}
  done
}

# device root path: whether the host has this at the target of a link on the path
is_behind_link() {
  local link
  for link in "${!links[@]}"; do
    [[ $3/ != "$link"/* ]] || ! is_host "$1" "$2" "${links[$link]}${3#"$link"}" || return 0
  done
  return 1
}

# id path: whether something hides the folder on top of this mount. srt first mounts folders on
# themselves, so that nobody can move them.
is_covered() {
  local id=$1
  [[ -n ${top[$2]} ]] || return 1
  while [[ -n $id ]]; do
    [[ $id != "${top[$2]}" ]] || return 1
    id=${parents[$id]}
  done
}

# path id: whether this mount is in a hidden folder, and not in one that is shown inside it
is_hidden() {
  local above=$1
  while :; do
    [[ -z ${named[$above]} ]] || return 1
    [[ -z ${hidden[$above]} ]] || { ! is_covered "$2" "$above"; return; }
    [[ $above != / ]] || return 1
    above=${above%/*}
    above=${above:-/}
  done
}

# path: whether a file or folder that hides another one is empty, except for mount points in it
is_empty() {
  local path entry
  printf -v path '%b' "$1"
  [[ -d $path ]] || { [[ ! -s $path ]] && return; }
  for entry in "$path"/* "$path"/.[!.]* "$path"/..?*; do
    [[ -e $entry || -L $entry ]] || continue
    for entry in "${!named[@]}"; do
      [[ $entry != "$1"/* ]] || return 0
    done
    return 1
  done
}

# device root point: whether this hides what the host has there
is_mask() {
  is_host "$1" "$2" /dev/null || is_host "$1" "$2" "$empty" ||
    { is_host "$1" "${2%/*}" "$spare" && is_empty "$3"; }
}

# If the whole outer sandbox is shown, its /dev, /proc and /sys are included, covered by those of
# the inner one: only mounts on the topmost one count.
declare -A top=() view=() live=() parents=()
while IFS=' ' read -r id parent device root point rest; do
  rest=${rest#* - } device+=/${rest%% *}
  top[$point]=$id view[$point]="$device $root" parents[$id]=$parent
done </proc/self/mountinfo
for point in /dev /proc /sys; do
  [[ -z ${top[$point]} ]] || live[${top[$point]}]=1
done

while IFS=' ' read -r id parent device root point rest; do
  type=${rest#* - } device+=/${type%% *}
  case $point in
    /dev | /proc | /sys) [[ -n ${live[$id]} ]] || continue ;;
    /dev/* | /proc/* | /sys/*)
      [[ -n ${live[$parent]} ]] || continue
      live[$id]=1
      ;;
  esac
  [[ -z ${seen["$device $root $point"]} ]] || continue
  seen["$device $root $point"]=1
  if [[ -n ${devices[$device]} ]]; then
    is_mask "$device" "$root" "$point" && continue
    is_host "$device" "$root" "$point" || is_behind_link "$device" "$root" "$point" ||
      fail "$point shows $root"
    ! is_hidden "$point" "$id" || fail "$point is shown"
  elif [[ -z ${fresh[$point]} && "$point $rest" != /proc/*' - proc '* ]]; then
    # This hides a folder, or is a folder inside that leads to a mount point.
    [[ $rest = *' - tmpfs '* ]] && is_empty "$point" ||
      fail "$point shows another file system"
  fi
done </proc/self/mountinfo

for point in "${!states[@]}"; do
  printf -v path '%b' "$point"
  [[ -e $path && -z ${top[$point]} ]] || continue
  # An empty folder contains only mount points, unless the mount above it is the host's.
  above=$point
  while [[ -z ${top[$above]} && $above != / ]]; do
    above=${above%/*}
    above=${above:-/}
  done
  IFS=' ' read -r device root <<<"${view[$above]}"
  [[ -z ${devices[$device]} ]] || is_mask "$device" "$root" "$above" || fail "$point is shown"
done
exec "$@"
