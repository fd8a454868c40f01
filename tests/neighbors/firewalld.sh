iptables -P INPUT ACCEPT
iptables -P FORWARD ACCEPT
iptables -t nat -N CNI-HOSTPORT-DNAT
iptables -t nat -A PREROUTING -m addrtype --dst-type LOCAL -j CNI-HOSTPORT-DNAT
nft -f - <<END
table inet firewalld {
    chain filter_FORWARD {
        type filter hook forward priority filter + 10; policy accept;
        ct state established,related accept
        ct status dnat accept
    }
}
END
--
nft -f - <<END
table inet firewalld
delete table inet firewalld
table inet firewalld {
    chain filter_FORWARD {
        type filter hook forward priority filter + 10; policy accept;
        ct state established,related accept
        ct status dnat accept
    }
}
END
iptables-restore --noflush <<END
*nat
-F
-X
COMMIT
*mangle
-F
-X
COMMIT
*filter
-F
-X
COMMIT
END
