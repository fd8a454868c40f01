iptables -P INPUT DROP
iptables-restore --noflush <<END
*filter
:ufw-before-input - [0:0]
:ufw-before-forward - [0:0]
:ufw-user-input - [0:0]
-A INPUT -j ufw-before-input
-A FORWARD -j ufw-before-forward
-A ufw-before-input -i lo -j ACCEPT
-A ufw-before-input -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT
-A ufw-before-input -j ufw-user-input
-A ufw-before-forward -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT
-A ufw-user-input -p tcp --dport 22 -j ACCEPT
COMMIT
END
--
iptables -D INPUT -j ufw-before-input
iptables -D FORWARD -j ufw-before-forward
iptables -F ufw-before-input
iptables -F ufw-before-forward
iptables -F ufw-user-input
iptables -X ufw-user-input
iptables-restore --noflush <<END
*filter
:ufw-before-input - [0:0]
:ufw-before-forward - [0:0]
:ufw-user-input - [0:0]
-A INPUT -j ufw-before-input
-A FORWARD -j ufw-before-forward
-A ufw-before-input -i lo -j ACCEPT
-A ufw-before-input -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT
-A ufw-before-input -j ufw-user-input
-A ufw-before-forward -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT
-A ufw-user-input -p tcp -m multiport --dports 22,443 -j ACCEPT
COMMIT
END
