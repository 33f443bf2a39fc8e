"""What the core needs of a Matrix backend; ghosts and portals."""
