for protocol in udp tcp; do
    iptables -t raw -I PREROUTING -d 169.254.20.10/32 -p $protocol --dport 53 -m comment --comment "NodeLocal DNS Cache: skip conntrack" -j NOTRACK
    iptables -t raw -I OUTPUT -s 169.254.20.10/32 -p $protocol --sport 53 -m comment --comment "NodeLocal DNS Cache: skip conntrack" -j NOTRACK
    iptables -I INPUT -d 169.254.20.10/32 -p $protocol --dport 53 -m comment --comment "NodeLocal DNS Cache: allow DNS traffic" -j ACCEPT
    iptables -I OUTPUT -s 169.254.20.10/32 -p $protocol --sport 53 -m comment --comment "NodeLocal DNS Cache: allow DNS traffic" -j ACCEPT
done
--
iptables -D INPUT -d 169.254.20.10/32 -p udp --dport 53 -m comment --comment "NodeLocal DNS Cache: allow DNS traffic" -j ACCEPT
iptables -I INPUT -d 169.254.20.10/32 -p udp --dport 53 -m comment --comment "NodeLocal DNS Cache: allow DNS traffic" -j ACCEPT
