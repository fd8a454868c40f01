iptables-restore --noflush <<END
*nat
:FLANNEL-POSTRTG - [0:0]
-A POSTROUTING -m comment --comment "flanneld masq" -j FLANNEL-POSTRTG
-A FLANNEL-POSTRTG -m mark --mark 0x4000/0x4000 -j RETURN
-A FLANNEL-POSTRTG -s 10.4.0.0/24 -d 10.4.0.0/16 -j RETURN
-A FLANNEL-POSTRTG -s 10.4.0.0/16 ! -d 224.0.0.0/4 -j MASQUERADE
COMMIT
*filter
:FLANNEL-FWD - [0:0]
-A FORWARD -m comment --comment "flanneld forward" -j FLANNEL-FWD
-A FLANNEL-FWD -s 10.4.0.0/16 -j ACCEPT
-A FLANNEL-FWD -d 10.4.0.0/16 -j ACCEPT
COMMIT
END
--
iptables -t filter -D FORWARD -m comment --comment "flanneld forward" -j FLANNEL-FWD
iptables -t filter -A FORWARD -m comment --comment "flanneld forward" -j FLANNEL-FWD
iptables -t nat -F FLANNEL-POSTRTG
iptables -t nat -A FLANNEL-POSTRTG -m mark --mark 0x4000/0x4000 -j RETURN
iptables -t nat -A FLANNEL-POSTRTG -s 10.4.0.0/16 ! -d 224.0.0.0/4 -j MASQUERADE
