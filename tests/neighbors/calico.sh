iptables-restore --noflush <<END
*filter
:cali-FORWARD - -
:cali-from-wl-dispatch - -
-I FORWARD -m comment --comment "cali:f1" -j cali-FORWARD
-A FORWARD -m comment --comment "cali:f2" -m mark --mark 0x10000/0x10000 -j ACCEPT
-A FORWARD -m comment --comment "cali:f3" -j MARK --set-xmark 0x10000/0x10000
-A cali-FORWARD -m comment --comment "cali:f4" -j MARK --set-xmark 0x0/0xe0000
-A cali-FORWARD -i pod+ -m comment --comment "cali:f5" -j cali-from-wl-dispatch
-A cali-from-wl-dispatch -i pod20 -m comment --comment "cali:f6" -j MARK --set-xmark 0x10000/0x10000
COMMIT
*nat
:cali-PREROUTING - -
:cali-POSTROUTING - -
-I PREROUTING -m comment --comment "cali:n1" -j cali-PREROUTING
-I POSTROUTING -m comment --comment "cali:n2" -j cali-POSTROUTING
COMMIT
END
--
iptables-restore --noflush <<END
*filter
:cali-from-wl-dispatch - -
-D FORWARD -m comment --comment "cali:f1" -j cali-FORWARD
-I FORWARD -m comment --comment "cali:f1" -j cali-FORWARD
-A cali-from-wl-dispatch -i pod11 -m comment --comment "cali:f7" -j MARK --set-xmark 0x10000/0x10000
COMMIT
*nat
-D PREROUTING -m comment --comment "cali:n1" -j cali-PREROUTING
-I PREROUTING -m comment --comment "cali:n1" -j cali-PREROUTING
COMMIT
END
