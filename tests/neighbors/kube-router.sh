iptables -N KUBE-ROUTER-FORWARD
iptables -N KUBE-POD-FW-ABCDEFGHIJKLMNOP
iptables -A KUBE-POD-FW-ABCDEFGHIJKLMNOP -m comment --comment "default allow" -j MARK --set-xmark 0x20000/0x20000
iptables -A KUBE-ROUTER-FORWARD -d 10.4.0.11/32 -j KUBE-POD-FW-ABCDEFGHIJKLMNOP
iptables -I FORWARD -m comment --comment "kube-router netpol" -j KUBE-ROUTER-FORWARD
--
iptables-save -t filter | sed 's/-d 10.4.0.11.32 -j KUBE-POD-FW/-d 10.4.0.12\/32 -j KUBE-POD-FW/' > saved
iptables-restore < saved
