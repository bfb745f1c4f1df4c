"""What `simulate_fleet.py` simulates: servers, and a world around the real dispatcher."""
