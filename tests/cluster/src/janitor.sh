# Cleans up behind the owner of this script's standard input, also when the owner was killed: a pipe closes in any case.
# Argument: the folder to remove. Prints the process group that everything to be killed has to join.
trap '' HUP INT TERM # the owner decides when it is over, not the terminal

# The anchor keeps the group in existence while no component runs. Job control gives it a group of its own.
set -m
sleep infinity </dev/null >/dev/null 2>&1 &
group=$!
set +m
echo "$group"
exec >/dev/null

while read -r _; do :; done

kill -KILL -- "-$group"
# Whoever was killed may still be writing. A zombie keeps its group, and not every container has somebody to reap it.
for ((i = 0; i < 250; i++)); do
    kill -0 -- "-$group" || break
    sleep 0.02
done
rm -rf -- "$1"
