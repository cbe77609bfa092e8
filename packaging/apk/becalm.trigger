#!/bin/sh
# Makes the index of what is switched on for all users again (becalm on --system). An APKBUILD has
#   triggers="$pkgname.trigger=/usr/bin:/usr/lib:/lib:/bin"
# and a pre-deinstall script with `becalm off --system`. apk gives the changed folders as arguments.
becalm on --update --system >/dev/null 2>&1 || :
