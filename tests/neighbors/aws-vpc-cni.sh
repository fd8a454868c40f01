iptables -t nat -N AWS-SNAT-CHAIN-0
iptables -t nat -N AWS-CONNMARK-CHAIN-0
iptables -t nat -A POSTROUTING -m comment --comment "AWS SNAT CHAIN" -j AWS-SNAT-CHAIN-0
iptables -t nat -A AWS-SNAT-CHAIN-0 -d 10.0.0.0/8 -m comment --comment "AWS SNAT CHAIN" -j RETURN
iptables -t nat -A AWS-SNAT-CHAIN-0 ! -o vlan+ -m comment --comment "AWS, SNAT" -m addrtype ! --dst-type LOCAL -j SNAT --to-source 10.200.0.2 --random-fully
iptables -t mangle -A PREROUTING -i eth0 -m comment --comment "AWS, primary ENI" -m addrtype --dst-type LOCAL --limit-iface-in -j CONNMARK --set-xmark 0x80/0x80
iptables -t mangle -A PREROUTING -i pod+ -m comment --comment "AWS, primary ENI" -j CONNMARK --restore-mark --nfmask 0x80 --ctmask 0x80
iptables -t nat -A PREROUTING -i pod+ -m comment --comment "AWS, outbound connections" -j AWS-CONNMARK-CHAIN-0
iptables -t nat -A AWS-CONNMARK-CHAIN-0 ! -d 10.0.0.0/8 -m comment --comment "AWS CONNMARK CHAIN" -j CONNMARK --set-xmark 0x80/0x80
--
iptables -t nat -F AWS-SNAT-CHAIN-0
iptables -t nat -A AWS-SNAT-CHAIN-0 -d 10.0.0.0/8 -m comment --comment "AWS SNAT CHAIN" -j RETURN
iptables -t nat -D POSTROUTING -m comment --comment "AWS SNAT CHAIN" -j AWS-SNAT-CHAIN-0
iptables -t nat -A POSTROUTING -m comment --comment "AWS SNAT CHAIN" -j AWS-SNAT-CHAIN-0
