# Waits until the program that started it is done or dead (its end of the pipe
# on standard input is closed), then kills what is still noted as running under
# $1/run and removes $1.
trap '' HUP INT TERM
while read -r _; do :; done
for pid in "$1"/run/*.pid; do
	[ -e "$pid" ] && kill -s KILL -- "-$(cat "$pid")" 2>/dev/null
done
# The dying may still write for a moment.
for _ in 1 2 3 4 5; do
	rm -rf "$1" 2>/dev/null && exit 0
	sleep 1
done
exit 1
