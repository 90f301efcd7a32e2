"""What a system under test gets to see, how it is asked, and the systems that are asked."""
